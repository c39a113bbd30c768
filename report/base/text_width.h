// How many columns of a terminal a text takes, by the width table of Unicode (utf8proc): a Chinese character and an
// emoji take two, a combining mark takes none. Texts are UTF-8; a byte that is none counts as one column, as the '?'
// that printable() puts there. All functions are thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace culprit::report {

// The columns of `text`, one line without escape sequences.
std::size_t columns_of(std::string_view text);

// `text`, or if it is wider than `width` columns: the characters at its beginning that fit into them, with `mark`
// added. A group of code points that a reader sees as one character (a letter with its accents, an emoji) is never
// divided.
std::string cut_to_width(std::string_view text, std::size_t width, std::string_view mark = "");

// `text`, or if it is wider than `width` columns: its beginning with "...", as wide as that at most. `width`: 3 or
// more.
std::string shortened(std::string_view text, std::size_t width);

// `text` with blanks up to `width` columns.
std::string padded_to_width(std::string text, std::size_t width);

// `text`, or if it is longer than `bytes`: its beginning without a part of a UTF-8 character. For texts that no column
// limits.
std::string_view cut_to_bytes(std::string_view text, std::size_t bytes);

}  // namespace culprit::report
