#!/usr/bin/env python3
"""Makes the manual pages: scripts/man_pages.py --culprit FILE --options FILE --manual FILE... --version VERSION
--output FOLDER

culprit.1 is made from the --help texts of the command and of each of its sub-commands, libculprit.so.7 from the table
of options (interpose/process/options.def), culprit-PAGE.7 from each page of report/manual/ (its README.md has the
forms). All are written to FOLDER. A help text, a row or a page that cannot be understood is an error, so that no page
lacks an option.
"""
import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys
import textwrap

INTRODUCTION = """culprit runs a CUDA program with the library libculprit.so preloaded. The library writes each
allocation and each free to a dump, with the stack of the call. The command reads the dump and prints which memory the
program left behind, the line that allocated it, and the reason why it was not freed. The program does
not need to be built again."""

LIBRARY = """A process that loads this library, by LD_PRELOAD or `culprit attach`, records its allocations and frees
of GPU memory, pinned memory, streams, events and other CUDA resources in a file, the dump. The file stays valid when
the process is killed. `culprit run` preloads the library and reports the dump at the end. A process without CUDA calls
writes no file."""

REFUSED = """The library reads these variables at the first CUDA call. A value that cannot be used is reported once on
standard error, with the value that is used instead."""

# Variables that only the command or the Python package reads, so that options.def has no rows for them.
OTHER_VARIABLES = [
    ("CULPRIT_LIBRARY", "Path of libculprit.so, for the command and the Python package. Default: the one of the same "
                        "installation."),
    ("CULPRIT_COMMAND", "Path of the command culprit, for the Python package. Default: found in PATH."),
    ("CULPRIT_SUPPRESSIONS", "File of suppressions for the command, as with --suppressions."),
]


class Unclear(Exception):
    """A help text or a table that this script does not understand."""


def escaped(text):
    """Text as roff: `words` in backquotes become bold, hyphens of options and ranges stay ASCII hyphens."""
    text = text.replace("\\", "\\e")
    text = re.sub(r"(?<![\w-])(--?)(?=\w)", lambda match: "\\-" * len(match.group(1)), text)
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text).replace("·", "\\(pc").replace("▾", "\\(da")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def sentence(text):
    """A capital at the beginning, except of a value ("html: ...", "text, json"), and a full stop at the end."""
    text = " ".join(text.split())
    if not re.match(r"[a-z-]+[:,]", text):
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith((".", "?", "!")) else text + "."


class Page:
    def __init__(self, name, section, version, manual):
        # Reproducible builds set the variable.
        seconds = os.environ.get("SOURCE_DATE_EPOCH")
        day = (datetime.datetime.fromtimestamp(int(seconds), datetime.timezone.utc).date() if seconds
               else datetime.date.today())
        self.lines = [f'.TH "{name}" "{section}" "{day}" "culprit {version}" "{manual}"', ".nh", ".ad l"]

    def section(self, title):
        self.lines.append(f".SH {title.upper()}")

    def subsection(self, title):
        self.lines.append(f'.SS "{escaped(title)}"')

    def paragraph(self, text):
        if not self.lines[-1].startswith((".SH", ".SS")):
            self.lines.append(".PP")
        self.text(text)

    def text(self, text):
        # roff puts a wide space after a full stop at the end of a line, so each sentence begins a line.
        for part in re.split(r"(?<=[.]) (?=[A-Z`-])", " ".join(text.split())):
            self.lines += [escaped(line) for line in textwrap.wrap(part, 76, break_on_hyphens=False)]

    def entry(self, head, text):
        self.lines += [".TP", head]
        self.text(text)

    def example(self, *lines):
        self.lines += [".RS 4", ".nf", *(escaped(line) for line in lines), ".fi", ".RE"]

    def write(self, path):
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")


class Help:
    """The parts of one help text of CLI11: about, usage, {heading: [(specification, description)]}, footer."""

    HEADING = re.compile(r"^[A-Z][A-Za-z ]*:$")

    def __init__(self, text):
        about, found, rest = text.partition("Usage: ")
        if not found:
            raise Unclear(f"no 'Usage: ' in {text[:200]!r}")
        self.about = sentence(about)
        usage, _, rest = rest.partition("\n")
        self.usage = usage.strip()
        self.lists, self.footer = {}, []
        heading = None
        for line in rest.splitlines():
            if self.HEADING.match(line):
                heading = self.lists.setdefault(line[:-1], [])
            elif not line.strip():
                # An empty line ends a list, or a paragraph of the footer.
                if heading is None:
                    self.footer.append("")
                heading = None
            elif heading is None:
                self.footer.append(line)
            elif not line.startswith("  "):
                raise Unclear(f"a line of a list that is not indented: {line!r}")
            elif line.startswith("   "):
                if not heading:
                    raise Unclear(f"a description without an option: {line!r}")
                heading[-1][1].append(line.strip())
            else:
                # A short specification has its description on the same line, after the column at 30.
                specification, description = line[2:], ""
                if len(line) > 30 and line[29] == " ":
                    specification, description = line[2:30].rstrip(), line[30:].strip()
                heading.append((specification.strip(), [description] if description else []))

    def paragraphs(self):
        return [" ".join(part.split()) for part in "\n".join(self.footer).split("\n\n") if part.strip()]


def option(specification, description):
    """The head and the text of an option. CLI11 writes types, values and conditions behind the name."""
    words = " ".join(description)
    facts = []
    match = re.match(r"(?P<names>\S+)(?P<rest>.*)$", specification)
    names, rest = match.group("names"), match.group("rest").strip()
    for condition, wording in (("Excludes", "Not with"), ("Needs", "Needs")):
        found = re.search(rf"\s*{condition}: ((?:-\S+\s*)+)", " " + rest)
        if found:
            facts.append(f"{wording} {', '.join(found.group(1).split())}.")
            rest = rest.replace(found.group(0).strip(), "").strip()
    required = "REQUIRED" in rest.split()
    rest = re.sub(r"\bREQUIRED\b", "", rest).strip()
    rest = re.sub(r"\s*\.\.\.$", "", rest).strip()
    default = re.search(r"=(\S+)$", rest)
    if default:
        rest = rest[:default.start()]
    values = re.search(r":?\{([^}]*)\}$", rest)
    if values:
        rest = rest[:values.start()]
        missing = [value for value in values.group(1).split(",") if not re.search(rf"\b{re.escape(value)}\b", words)]
        if missing:
            facts.append(f"Values: {values.group(1).replace(',', ', ')}.")
    span = re.search(r":[A-Z]+ in \[(\S+) - (\S+)\]$", rest)
    if span:
        rest = rest[:span.start()]
        facts.append(f"Range: {span.group(1)} to {span.group(2)}." if float(span.group(2)) < 1e6
                     else f"At least {span.group(1)}.")
    rest = re.sub(r":?\b(INT|UINT|FLOAT|POSITIVE|TEXT)( \[[A-Z]+\])?$", "", rest).strip()
    if rest.startswith(("{", ":")) or "[" in rest:
        raise Unclear(f"the type of {specification!r}")
    if default and not words.endswith(f"(default {default.group(1)})"):
        facts.append(f"Default: {default.group(1)}.")
    if required:
        facts.append("Required.")
    text = " ".join([sentence(words), *facts]).strip()
    head = ", ".join(f"\\fB{escaped(name)}\\fR" for name in names.split(","))
    return head + (f" \\fI{escaped(rest)}\\fR" if rest else ""), text


def help_text(culprit, *words):
    run = subprocess.run([culprit, *words, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                         timeout=60, check=True)
    return Help(run.stdout)


def command_page(culprit, topics, version):
    general = help_text(culprit)
    commands = [(name, help_text(culprit, name)) for name, _ in general.lists["Subcommands"]]
    page = Page("CULPRIT", 1, version, "User commands")
    page.section("Name")
    page.lines.append("culprit \\- find GPU memory that a CUDA program never gave back")
    page.section("Synopsis")
    for number, (name, command) in enumerate(commands):
        arguments = escaped(command.usage.removeprefix(f"culprit {name}").strip()).replace(" -- ", " \\-\\- ")
        page.lines += ([".br"] if number else []) + [f"\\fBculprit {name}\\fR {arguments}"]
    page.section("Description")
    page.paragraph(general.about)
    page.paragraph(INTRODUCTION)
    page.section("Options")
    for specification, description in general.lists["Options"]:
        page.entry(*option(specification, description))
    page.section("Commands")
    shared = general.paragraphs()
    general_options = [specification for specification, _ in general.lists["Options"]]
    for name, command in commands:
        page.subsection(f"culprit {name}")
        page.paragraph(command.about)
        for part in command.paragraphs():
            if part not in shared:
                # An example stands behind a colon and two spaces.
                page.paragraph(part)
        for heading, entries in command.lists.items():
            if len(command.lists) > 1 and any(specification not in general_options for specification, _ in entries):
                page.paragraph({"Positionals": "Arguments"}.get(heading, heading) + ":")
            for specification, description in entries:
                # Options that stand before a sub-command, too, are described there.
                if specification not in general_options:
                    page.entry(*option(specification, description))
    page.section("Exit status")
    for part in shared:
        text = part.removeprefix("Exit codes: ")
        for fact in re.split(r"; (?=\d)|(?<=\.) ", text):
            code, _, meaning = fact.partition(" ")
            if code.isdigit():
                page.entry(code, sentence(meaning))
            else:
                page.paragraph(fact)
    page.section("Environment")
    page.paragraph("libculprit.so(7) lists the variables that the library and the command read.")
    page.section("Examples")
    page.example("culprit run -- ./app --its-option",
                 "culprit run --format html --output report.html -- python train.py",
                 "culprit report --group-by library culprit.app.4242.dump", "culprit doctor")
    page.section("See also")
    see_also(page, ["libculprit.so", *(f"culprit-{topic}" for topic in topics)])
    return page


def see_also(page, names):
    page.lines += [f".BR {escaped(name)} (7)" + ("," if name != names[-1] else "") for name in names]


def linked(text):
    """Without the marks of links: a page of the manual is named as man(1) does."""
    def words(link):
        page = re.fullmatch(r"([a-z-]+)\.md(#.*)?", link[2])
        if page and link[1].lower().replace(" ", "-") == page[1]:
            return f"culprit-{page[1]}(7)"
        return link[1] + (f" (culprit-{page[1]}(7))" if page else f" ({link[2]})" if "://" in link[2] else "")
    return re.sub(r"\*\*([^*]+)\*\*", r"\1", re.sub(r"\[([^\]]+)\]\(([^)]+)\)", words, text))


def add_part(page, lines):
    """A paragraph, the items of a list, or the rows of a table."""
    if lines[0].startswith("|"):
        for line in lines[2:]:
            head, text = (cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:3])
            page.entry(escaped(linked(head)), linked(text))
    elif lines[0].startswith("- "):
        for item in re.split(r"\n- ", "\n".join(lines)[2:]):
            page.lines.append(".IP \\[bu] 2")
            page.text(linked(item))
    else:
        page.paragraph(linked(" ".join(lines)))


def manual_page(path, version):
    """A page of report/manual/."""
    title, _, rest = path.read_text(encoding="utf-8").partition("\n")
    about = title.removeprefix("# ").partition(": ")[2]
    if not about:
        raise Unclear(f"{path}: the title {title!r}")
    page = Page(f"CULPRIT-{path.stem.upper()}", 7, version, "Manual of culprit")
    page.section("Name")
    page.lines.append(f"{escaped('culprit-' + path.stem)} \\- {escaped(about)}")
    page.section("Description")
    part, code, commands = [], None, False
    for line in [*rest.splitlines(), ""]:
        if part and (not line or line.startswith(("```", "#", "<!--"))):
            add_part(page, part)
            part = []
        if code is not None and line != "```":
            code.append(f"$ {line}" if commands else line)
        elif line.startswith("```"):
            if code:
                page.lines += [] if page.lines[-1].startswith(".SH") else [".PP"]
                page.example(*code)
            code = [] if code is None else None
            commands = line == "```sh"
        elif line.startswith("## "):
            page.section(linked(line[3:]))
        elif line and not line.startswith("<!--"):
            part.append(line)
    page.section("See also")
    page.lines.append(".BR culprit (1)")
    return page


def rows(path):
    """(kind, variable, default, bounds, help) of each row of options.def."""
    text = re.sub(r"^\s*//.*$", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"^#.*$", "", text, flags=re.MULTILINE)
    string = r'"(?:[^"\\]|\\.)*"'
    row = re.compile(rf"OPTION_(\w+)\(((?:{string}|[^\"()])*)\)", re.DOTALL)
    rest = row.sub("", text).strip()
    if rest:
        raise Unclear(f"{path}: {rest[:200]!r} is no row")
    for kind, arguments in row.findall(text):
        fields = [field.strip() for field in re.findall(rf"(?:{string}|[^\",])+", arguments) if field.strip()]
        # Strings that follow each other are one.
        fields = ["".join(part[1:-1] for part in re.findall(string, field)) if field.startswith('"') else field
                  for field in fields]
        least_and_most = fields[3:-1]
        if len(least_and_most) != {"TEXT": 0, "PATH": 0, "FLAG": 0, "NUMBER": 2, "BYTES": 2}.get(kind):
            raise Unclear(f"{path}: {fields}")
        yield kind, fields[1], fields[2], least_and_most, fields[-1]


def size(expression):
    """1ULL << 30 as 1G."""
    match = re.fullmatch(r"(\d+)ULL << (\d+)", expression)
    if not match:
        raise Unclear(f"the size {expression!r}")
    bytes_ = int(match.group(1)) << int(match.group(2))
    return next(f"{bytes_ >> shift}{unit}" for shift, unit in ((30, "G"), (20, "M"), (10, "K")) if bytes_ >> shift)


def library_page(options, version):
    page = Page("LIBCULPRIT.SO", 7, version, "Miscellaneous information")
    page.section("Name")
    page.lines.append("libculprit.so \\- record the GPU memory of a CUDA program")
    page.section("Synopsis")
    page.lines.append("\\fBLD_PRELOAD=\\fR\\fIFOLDER\\fR\\fB/libculprit.so\\fR [\\fIVARIABLE\\fR=\\fIVALUE\\fR]... "
                      "\\fICOMMAND\\fR")
    page.section("Description")
    page.paragraph(LIBRARY)
    page.section("Environment")
    page.paragraph(REFUSED)
    for kind, variable, default, bounds, text in rows(options):
        facts = [sentence(text)]
        if kind == "BYTES":
            bounds, default = [size(bound) for bound in bounds], size(default)
        if kind == "FLAG":
            default = {"true": "1", "false": "0"}[default]
        if bounds:
            facts.append(f"Range: {bounds[0]} to {bounds[1]}.")
        facts.append(f"Default: {default}." if default else "Default: none.")
        page.entry(f"\\fB{variable}\\fR", " ".join(facts))
    page.paragraph("The command and the Python package also read:")
    for variable, text in OTHER_VARIABLES:
        page.entry(f"\\fB{variable}\\fR", text)
    page.section("See also")
    page.lines.append(".BR culprit (1),\n.BR ld.so (8)")
    return page


def main():
    parser = argparse.ArgumentParser(description="Makes culprit.1, libculprit.so.7 and culprit-PAGE.7.")
    parser.add_argument("--culprit", required=True, help="the built command")
    parser.add_argument("--options", required=True, type=pathlib.Path, help="interpose/process/options.def")
    parser.add_argument("--manual", required=True, nargs="+", type=pathlib.Path, help="the pages of report/manual/")
    parser.add_argument("--version", required=True, help="version of the project")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="folder of the pages")
    options = parser.parse_args()
    try:
        topics = [path.stem for path in options.manual]
        pages = {"culprit.1": command_page(options.culprit, topics, options.version),
                 "libculprit.so.7": library_page(options.options, options.version)}
        pages.update({f"culprit-{path.stem}.7": manual_page(path, options.version) for path in options.manual})
    except Unclear as error:
        print(f"man_pages.py: cannot understand {error}", file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for name, page in pages.items():
        page.write(options.output / name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
