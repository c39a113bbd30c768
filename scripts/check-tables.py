#!/usr/bin/env python3
"""The tables (.def) and the texts and tests that must have an entry for each of their rows. Prints what is missing: a line each."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent


def text(path):
    return (ROOT / path).read_text(encoding="utf-8")


def rows(path, macro):
    """The arguments of each row as one string."""
    return re.findall(rf"^{macro}\((.*?)\)[^()]*$", text(path), re.M)


def kinds():
    schema = text("report/SCHEMA.md")
    for row in rows("interpose/format/kinds.def", "KIND"):
        name = re.search(r'"([^"]+)"', row).group(1)
        if f"`{name}`" not in schema:
            yield f"report/SCHEMA.md: the kind `{name}` of kinds.def is missing"


for check in (kinds,):
    for problem in check():
        print(problem)
