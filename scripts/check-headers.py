#!/usr/bin/env python3
"""Checks the headers of report/: scripts/check-headers.py

Prints a line for each problem; exit code 1 when there are any. scripts/check.sh runs it.

- Every function that a header declares is defined in the .cpp beside it.
- No header includes nlohmann/json.hpp or CLI/CLI.hpp, directly or through another header: both take seconds to compile.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
HEAVY = ("nlohmann/json.hpp", "CLI/CLI.hpp")
# One declaration, a definition for each processor.
SEVERAL_FILES = {
    "report/attach/registers.h": ("report/attach/registers_x86_64.cpp", "report/attach/registers_none.cpp"),
}
NO_FUNCTION = {"if", "for", "while", "switch", "return", "sizeof", "static_assert", "alignas", "decltype", "defined"}


def without_comments(text):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    return re.sub(r'"(\\.|[^"\\\n])*"', '""', text)


def without_bodies(text):
    """The text of a class or namespace without all that stands in braces of its own."""
    while True:
        shorter = re.sub(r"\{[^{}]*\}", ";", text)
        if shorter == text:
            return text
        text = shorter


def functions_in(text):
    """The names of the functions that a piece of code without braces declares and does not define."""
    names = set()
    for statement in re.split(r";|\bpublic:|\bprivate:|\bprotected:", text):
        statement = re.sub(r"^\s*#[^\n]*$", "", statement, flags=re.M)
        statement = re.sub(r"^\s*(\[\[\w+\]\]\s*)", "", statement)
        if re.search(r"\b(template|using|typedef|friend|inline|constexpr|operator|return)\b", statement):
            continue
        if re.search(r"=\s*(delete|default|0)\s*$", statement):
            continue
        if "(*" in statement or "(&" in statement:
            continue
        head = re.sub(r"<[^<>()]*>", "", re.sub(r"<[^<>()]*>", "", statement))
        found = re.match(r"\s*(?:[\w:&*\s]+?[\s&*])?(~?\w+)\s*\(", head)
        if found and "=" not in head[: found.end()] and found.group(1) not in NO_FUNCTION:
            names.add(found.group(1))
    return names


def declared(header):
    """("" or the class, function) for each function that is declared and not defined in the header."""
    text = without_comments(header.read_text())
    text = re.sub(r"^#define (?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)
    # (Report's constructors and the like: a linker misses those that report/model/compiled_once.cpp does not define.)
    text = re.sub(r"\bCULPRIT_COMPILED_ONCE\(\w+\);", "", text)
    text = re.sub(r"namespace [\w:]+ \{", "", text)
    result = set()
    for found in re.finditer(r"^(?:class|struct) (\w+)[^;{]*\{\n(.*?)^\};", text, flags=re.S | re.M):
        # A function with a body is defined here: its head, initializers included, goes with the body.
        body = re.sub(r"[^;{}]*\)[^;{}]*\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}", ";", found.group(2))
        result |= {(found.group(1), name) for name in functions_in(without_bodies(body))}
    outside = re.sub(r"^(?:class|struct|enum)\b[^;{]*\{.*?^\};", ";", text, flags=re.S | re.M)
    outside = re.sub(r"^[^;{}]*\)[^;{}]*\{.*?^\}$", ";", outside, flags=re.S | re.M)
    return result | {("", name) for name in functions_in(without_bodies(outside))}


def defines(source, owner, name):
    if owner:
        return re.search(r"\b" + owner + r"::" + re.escape(name) + r"\(", source) is not None
    return re.search(r"^(?!.*;$)[^\s#/}].*?(?<![\w:.>])" + re.escape(name) + r"\(", source, flags=re.M) is not None


def untruths(header):
    path = header.relative_to(ROOT).as_posix()
    sources = [ROOT / name for name in SEVERAL_FILES.get(path, (path[:-2] + ".cpp",))]
    texts = [without_comments(source.read_text()) if source.exists() else "" for source in sources]
    for owner, name in sorted(declared(header)):
        for source, text in zip(sources, texts):
            if not defines(text, owner, name):
                full = f"{owner}::{name}" if owner else name
                yield f"{path} declares {full}, which {source.name} does not define"


def heavy_includes(header, seen):
    for name in re.findall(r'#include [<"]([^>"]+)[>"]', header.read_text()):
        if name in HEAVY:
            return [name]
        if name.startswith(("report/", "interpose/")) and name not in seen:
            seen.add(name)
            below = heavy_includes(ROOT / name, seen)
            if below:
                return [name, *below]
    return []


def main():
    problems = []
    for header in sorted((ROOT / "report").rglob("*.h")):
        problems += untruths(header)
        heavy = heavy_includes(header, set())
        if heavy:
            problems.append(f"{header.relative_to(ROOT)} includes {' -> '.join(heavy)}: include it in a .cpp file")
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
