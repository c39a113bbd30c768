"""Foreign text made harmless, as report/base/printable.cpp does it: a control character would reach a terminal, and one
that changes the direction of text would show a line in another order than it has."""
import re

# kUnprintable of printable.cpp. Surrogates are no characters, and cannot be written as UTF-8.
RANGES = [(0x0000, 0x001f), (0x007f, 0x009f), (0x00ad, 0x00ad), (0x061c, 0x061c), (0x115f, 0x1160), (0x180e, 0x180e),
          (0x200b, 0x200b), (0x200e, 0x200f), (0x2028, 0x202e), (0x2060, 0x206f), (0x3164, 0x3164), (0xfdd0, 0xfdef),
          (0xfeff, 0xfeff), (0xfff0, 0xfffb), (0xfffe, 0xffff), (0xe0000, 0xe0fff)]
SURROGATES = (0xd800, 0xdfff)
# The last two of each plane are noncharacters.
LAST = [(plane << 16 | 0xfffe, plane << 16 | 0xffff) for plane in range(1, 17)]
UNPRINTABLE = re.compile("[" + "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in [*RANGES, SURROGATES, *LAST])
                         + "]")


def printable(text):
    """The text with '?' for each such character: it fits into one line."""
    return UNPRINTABLE.sub("?", text)


def printable_strings(value):
    """Likewise all strings in lists and dictionaries. Line feeds and tabs stay, as in culprit's pages."""
    if isinstance(value, str):
        return UNPRINTABLE.sub(lambda found: found[0] if found[0] in "\n\t" else "?", value)
    if isinstance(value, list):
        return [printable_strings(one) for one in value]
    if isinstance(value, dict):
        return {key: printable_strings(one) for key, one in value.items()}
    return value
