#!/usr/bin/env python3
"""Checks the documents: scripts/check-readmes.py

Prints a line for each problem; exit code 1 when there are any. scripts/check.sh runs it.

- Each link to a file or heading of the repository leads somewhere, and each source file that is named in `code` exists.
- Each folder of interpose/, report/ and tests/ with a CMakeLists.txt has a README.md of at most 25 lines.
- README.md has at most 150 lines, interpose/README.md 130, report/README.md 60, a page of the manual 120; the glossary
  has at most 40 rows.
- Paragraphs of README.md have at most 100 columns, those of the manual 120.
- The counts of tests/PROMISES.md that the tree itself has are right: pages, blocks that no test runs, tests.
- A page of the manual begins with its title, an output and the command that makes it. Its tables have two columns.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LONGEST = {"README.md": 150, "interpose/README.md": 130, "report/README.md": 60}
LONGEST_PAGE = 120
COLUMNS, COLUMNS_OF_PAGE = 100, 120
LONGEST_OF_FOLDER = 25
MOST_WORDS = 40
# A name with a placeholder (NAME.cpp) or a wildcard stands for many files.
NAMED_FILE = re.compile(r"[a-z0-9_./-]+\.(?:c|cpp|h|def|S|inc|cmake|py|sh|css|js|txt)")
FOREIGN = {"Python.h", "cuda.h", "train.py", "app.py", "d3.js"}


def tracked():
    done = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                          capture_output=True, text=True)
    return [name for name in done.stdout.splitlines() if (ROOT / name).exists()]


def anchors(path):
    """The names that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(name, text):
    folder = (ROOT / name).parent
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        path = folder / file if file else ROOT / name
        if not path.exists():
            yield f"{name}: the link {target} leads nowhere"
        elif anchor and path.suffix == ".md" and anchor not in anchors(path):
            yield f"{name}: the link {target} names no heading"


def named_files(name, text, files):
    """A file may be named by the end of its path."""
    for span in re.findall(r"`([^`\n]+)`", text):
        if not NAMED_FILE.fullmatch(span) or span in FOREIGN:
            continue
        end = re.sub(r"^(\.\./)+", "", span)
        if not any(file == end or file.endswith("/" + end) for file in files):
            yield f"{name}: there is no file {span}"


def lengths(name, text):
    longest = LONGEST.get(name, LONGEST_OF_FOLDER if name.split("/")[0] in ("interpose", "report", "tests") else None)
    lines = text.count("\n")
    if longest is not None and name.endswith("README.md") and lines > longest:
        yield f"{name}: {lines} lines, {longest} at most"


def without_code(text):
    """The text with empty lines in place of blocks between fences."""
    return re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.M | re.S)


def columns(name, text):
    most = COLUMNS if name == "README.md" else COLUMNS_OF_PAGE if is_page(name) else None
    for number, line in enumerate(without_code(text).split("\n"), start=1):
        # A table cannot be broken; a link in one word may be long.
        if most and len(line) > most and " " in line.strip() and not line.startswith(("|", "    ", "<!--", "#", "[")):
            yield f"{name}:{number}: {len(line)} columns, {most} at most"


def is_page(name):
    return name.startswith("report/manual/") and not name.endswith("/README.md")


def page(name, text):
    """The order of a page of the manual, and the part of Markdown that the command and man_pages.py understand."""
    if not is_page(name):
        return
    lines = text.count("\n")
    if lines > LONGEST_PAGE:
        yield f"{name}: {lines} lines, {LONGEST_PAGE} at most"
    fences = re.findall(r"^```(\w+)$", text, re.M)
    begin = r"# [A-Z][^\n]*: [^\n]*\n\n(<!--[^\n]*-->\n)*```"
    if not re.match(begin, text) or not (fences[:1] == ["console"] or fences[:2] == ["text", "sh"]):
        yield f"{name}: a page begins with a title, an output (text) and the command (sh), or with both (console)"
    for number, line in enumerate(without_code(text).split("\n"), start=1):
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        if line.startswith("|") and cells != 2:
            yield f"{name}:{number}: a table of {cells} columns, 2 are allowed"
        if line.startswith(("    ", "* ", "1. ", "###")):
            yield f"{name}:{number}: {line[:20]!r} is none of the forms that README.md of the folder allows"


def glossary(name, text):
    words = re.search(r"^## Glossary\n(.*?)^## ", text, re.M | re.S)
    rows = len(re.findall(r"^\| ", words[1], re.M)) - 2 if words else 0  # the first two are the head
    if rows > MOST_WORDS:
        yield f"{name}: the glossary has {rows} rows, {MOST_WORDS} at most"


def folders(files):
    for file in files:
        folder, _, name = file.rpartition("/")
        if name == "CMakeLists.txt" and folder.count("/") == 1 and folder.split("/")[0] in (
                "interpose", "report", "tests") and f"{folder}/README.md" not in files:
            yield f"{folder}/: no README.md"


def counts():
    """{words of tests/PROMISES.md: what the tree has, in their order}. "over N" may be less, but more than a half."""
    def cases(folder, pattern="*_test.cpp"):
        found = [len(re.findall(r"^(?:TEST_CASE|TEMPLATE_TEST_CASE)\(", path.read_text(encoding="utf-8"), re.M))
                 for path in sorted((ROOT / "tests" / folder).rglob(pattern))]
        return sum(found), sum(1 for count in found if count)

    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "report/manual").glob("*.md")
             if path.name != "README.md"]
    guest = cases("guest")
    return {
        r"\| (\d+) pages, (\d+) blocks not run \|": (len(pages), sum(page.count("<!-- not run:") for page in pages)),
        r"\| over (\d+) guest tests in (\d+) files \|": guest,
        r"\| over (\d+) \(library\) and over (\d+) \(report\) cases \|":
            (cases("unit/interpose")[0], cases("unit/report")[0]),
        r"\| over (\d+) process tests \|": cases("process")[:1],
    }


def promises():
    text = (ROOT / "tests/PROMISES.md").read_text(encoding="utf-8")
    for words, right in counts().items():
        found = re.search(words, text)
        if not found:
            yield f"tests/PROMISES.md: no row has {words}"
            continue
        for number, stated, actual in zip(re.finditer(r"(over )?\d+", found[0]), found.groups(), right):
            fits = actual / 2 < int(stated) <= actual if number[1] else int(stated) == actual
            if not fits:
                yield f"tests/PROMISES.md: {found[0]} states {stated}, the tree has {actual}"


def main():
    files = tracked()
    problems = [*folders(files), *promises()]
    for name in files:
        if not name.endswith(".md") or name == "CHANGELOG.md":
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        for check in (links(name, text), named_files(name, text, files), lengths(name, text), page(name, text),
                      columns(name, text), glossary(name, text)):
            problems += check
    for problem in problems:
        print(problem)
    return 1 if problems else 0


sys.exit(main())
