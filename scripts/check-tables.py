#!/usr/bin/env python3
"""Checks that texts and tests have an entry for each row of the tables (.def): scripts/check-tables.py

Prints a line for each entry that is missing.
"""
import fnmatch
import functools
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


@functools.cache
def code_of(folder, without=None):
    """All C++ of a folder as one text, without that of one below it."""
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*"))
                     if path.suffix in (".cpp", ".h") and not (without and path.is_relative_to(ROOT / without)))


def is_named(name, folder, without=None):
    return re.search(rf"\b{name}\b", code_of(folder, without)) is not None


# Live numbers of Header that are sizes or times, or that no report shows.
NO_COUNTERS = {"throws", "file_bytes", "end_time_ns", "stop_time_ns", "last_switch_ns", "holder_search_ns",
               "holder_search_bytes", "lost_search_ns", "lost_search_bytes", "audit_end_ns"}


def counters():
    schema = text("report/SCHEMA.md")
    known = set()
    for macro in ("SUMMARY", "CALLS", "DROPPED", "DETAIL", "REPORT"):
        names = {row.split(",")[0] for row in rows("interpose/format/counters.def", f"COUNTER_{macro}") if row}
        known |= names
        for name in sorted(names) if macro != "REPORT" else ():
            if f"`{name}`" not in schema:
                yield f"report/SCHEMA.md: the counter `{name}` of counters.def is missing"
    header = text("interpose/format/dump_file.h").split("struct Header {")[1].split("\n};")[0]
    live = re.findall(r"std::uint64_t (\w+); *// live", header)
    for name in live:
        if name not in known | NO_COUNTERS:
            yield f"interpose/format/counters.def: Header::{name} has no row"
    # JSON and the words of "Not recorded" are made from the other rows, so those are read.
    read_by_name = NO_COUNTERS | set(rows("interpose/format/counters.def", "COUNTER_REPORT"))
    for name in sorted(known.union(live)):
        if name and not is_named(name, "interpose", "interpose/format"):
            yield f"interpose/format/counters.def: {name} is written nowhere in interpose/"
        if name in read_by_name and not is_named(name, "report"):
            yield f"interpose/format/counters.def: {name} is read nowhere in report/"


def python_versions():
    table = text("interpose/format/python_versions.def")
    wanted = re.search(r'#define CULPRIT_PYTHON_VERSIONS "(.*)"', table).group(1)
    pages = ("README.md", "interpose/process/ENVIRONMENT.md", "interpose/process/options.def",
             "report/manual/python.md")
    for path in pages:
        for found in re.findall(r"3\.\d+ to 3\.\d+", text(path)):
            if found != wanted:
                yield f"{path}: CPython {found}, but python_versions.def has {wanted}"
    oldest = wanted.split(" ")[0]
    if f'requires-python = ">={oldest}"' not in text("interpose/python_package/pyproject.toml"):
        yield f"interpose/python_package/pyproject.toml: python_versions.def begins with {oldest}"


# Functions of CUDA 2 with 32-bit addresses: neither NVIDIA's driver of today nor the simulated one serves them.
UNTESTED_HOOKS = {"cuMemAlloc", "cuMemAllocPitch", "cuMemFree"}


def without_version(name):
    return re.sub(r"_v\d+$", "", name)


def hooks():
    """Names each hook that no program of the tests calls.

    cuda.h renames a name without version to its newest function. FUNCTION() takes the function with exactly that name
    and, on the route proc-address-per-thread, its twin. dlsym() and by_symbol() take exactly that name.
    """
    rows_of_hooks = re.findall(r"^HOOK_(?:MAKE|END|CUSTOM)\((cu\w+),", text("interpose/driver/hooks.def"), re.M)
    newest = {without_version(name): name for name in sorted(rows_of_hooks)}
    named = set()
    for path in (ROOT / "tests").rglob("*"):
        if path.suffix not in (".cpp", ".h", ".c", ".py") or path.relative_to(ROOT).parts[1] in ("simcuda", "unit"):
            continue
        code = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
        exact = re.findall(r"\bFUNCTION\((cu\w+)\)", code)
        named.update(exact, (name + "_ptsz" for name in exact))
        named.update(re.findall(r"\b(?:dlsym|by_symbol)\(.*\"(cu\w+)\"\)", code))
        named.update(newest.get(name, name) for name in re.findall(r"(?<!FUNCTION\()\b(cu[A-Z]\w+)", code))
    for name in rows_of_hooks:
        if name not in named and name not in UNTESTED_HOOKS:
            yield f"interpose/driver/hooks.def: no test calls {name}: add a row to tests/subjects/routes/kinds.def"
    for name in sorted(UNTESTED_HOOKS):
        if name in named or name not in rows_of_hooks:
            yield f"scripts/check-tables.py: {name} is tested or no row any more: take it out of UNTESTED_HOOKS"


def audited():
    """Names each exception of the audit without a reason: in exclusions.txt, or behind the row."""
    explained = [line.split()[0] for line in text("interpose/driver/exclusions.txt").splitlines()
                 if line and not line.startswith("#")]
    table = text("interpose/driver/audited.cpp").split("kLeftOut[] = {")[1].split("};")[0]
    for name, behind in re.findall(r'"(cu[\w*]+)",(.*)', table):
        known = any(fnmatch.fnmatchcase(name.rstrip("*"), one) or fnmatch.fnmatchcase(one.rstrip("*"), name)
                    for one in explained)
        if not known and "// " not in behind:
            yield f"interpose/driver/audited.cpp: {name} has no reason, neither here nor in exclusions.txt"


for check in (kinds, counters, python_versions, hooks, audited):
    for problem in check():
        print(problem)
