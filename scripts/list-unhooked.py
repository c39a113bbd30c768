#!/usr/bin/env python3
"""Lists CUDA functions that may create or destroy a resource and have neither a hook nor a reason for having none.

    list-unhooked.py --include DIR --hooks interpose/driver/hooks.def --exclusions interpose/driver/exclusions.txt
    [--stub libcuda.so]

Each function needs a row in hooks.def or, with a reason, a line in exclusions.txt. Rows of HOOK_CHECK and HOOK_SWITCH
do not count, because they make no resource; but copies, memsets and waits need a row of any sort. The functions are
those of the toolkit's headers (cuda.h, the graphics headers and cuda_runtime_api.h, as far as they are in DIR) and the
exports of the toolkit's stub library, if it is given. So a new toolkit fails one test until each of its new functions
has a row or a line.

A line of exclusions.txt is a name or a shell pattern and its reason; # begins a comment. A line that excludes nothing
(no such function any more, or one that is hooked) is an error too, so that the list stays true. With --prune-ok such
lines are allowed: for checking against a toolkit that is older or newer than the one the list was written for.

Exit code: 0 each function has its row or line, 1 one has none, 2 wrong usage or unreadable files.
"""

import argparse
import fnmatch
import pathlib
import re
import subprocess
import sys

HEADERS = ["cuda.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h", "cuda_runtime_api.h"]

# Words in a name that suggest that the function creates or destroys a resource. The list is long on purpose: a line in
# exclusions.txt costs little, an unrecorded resource much.
VERBS = set(
    """Create Destroy Alloc Free Map Mapped Unmap Register Unregister Retain Release Reset Import Export Open Close Load
    Unload Instantiate Reserve Capture Attach Detach Clone Add Bind Unbind Connect Disconnect Trim Restore Checkpoint
    Shareable Malloc Produce Present Return Acquire""".split()
)

# Calls whose failure makes functions return early; hooks.def must have each of them, at least as HOOK_CHECK.
FOLLOWED = ["cuMemcpy*", "cuMemset*", "cuMemPrefetch*", "cuMemSetAccess*", "cuCtxSynchronize*", "cuStreamSynchronize*",
            "cuEventSynchronize*", "cuStreamWait*", "cuStreamWrite*", "cuEventRecord*"]  # fmt: skip


def words_of(name):
    """The camel-case words of a function's name, without its cu or cuda and its version: Mem, Alloc, Async."""
    plain = re.sub(r"^cu(da)?", "", re.sub(r"(_v\d+)?(_ptsz|_ptds)?$", "", name))
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+D?", plain)


def makes_or_ends_something(name):
    return any(word in VERBS for word in words_of(name))


def declared_functions(text):
    """The ELF names of the functions that a CUDA header declares.

    A name that the header #defines to another one (cuMemAlloc to cuMemAlloc_v2) stands for the other one, and a name in
    __CUDA_API_PTSZ has a _ptsz twin. Functions under __CUDA_API_VERSION_INTERNAL are declared with their ELF names.
    """
    aliases = dict(re.findall(r"^\s*#\s*define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*)\s*$", text, re.MULTILINE))
    twins = set()
    for name, kind, target in re.findall(
        r"^\s*#\s*define\s+(cu\w+)\s+__(?:CUDA_API|CUDART_API)_(PTSZ|PTDS)\((\w+)\)", text, re.MULTILINE
    ):
        twins.add(target + "_" + kind.lower())
        aliases[name] = target
    # Other lines mention the macro together with more; the one that stands alone begins the section of old versions.
    section = re.search(r"^#if defined\(__CUDA_API_VERSION_INTERNAL\)\s*$", text, re.MULTILINE)
    names = set(twins)
    for match in re.finditer(r"\b(?:CUDAAPI|CUDARTAPI|CUDARTAPI_CDECL)\s+(cu[A-Z]\w*|cuda[A-Z]\w*)\s*\(", text):
        name = match.group(1)
        inside = section is not None and match.start() > section.start()
        names.add(name if inside else aliases.get(name, name))
    return names


def exported_functions(stub):
    output = subprocess.run(["nm", "-D", "--defined-only", stub], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in output.splitlines() if re.search(r" [TWi] cu[A-Z]", line)}


def hooked_functions(path):
    """(functions with a row about a resource, functions with any row)."""
    rows = re.findall(r"^([A-Z_0-9]+)\s*\(\s*(cu\w+)", path.read_text(), re.MULTILINE)
    plain = ("HOOK_CHECK", "HOOK_EXPORT", "HOOK_GROW", "HOOK_LAUNCH", "HOOK_LOOK_UP", "HOOK_SWITCH")
    return {name for row, name in rows if row not in plain}, {name for _, name in rows}


def exclusions(path):
    """(pattern, reason, line number) of each line; a line without a reason is reported as an error by the caller."""
    rows = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if line:
            pattern, _, reason = line.partition(" ")
            rows.append((pattern, reason.strip(), number))
    return rows


def problems(functions, hooked, with_row, excluded, prune_ok):
    found = []
    unhooked = functions - hooked
    covered = set()
    for pattern, reason, number in excluded:
        if not reason:
            found.append(f"exclusions.txt:{number}: {pattern} has no reason")
        matches = set(fnmatch.filter(unhooked, pattern))
        covered |= matches
        if not matches and not prune_ok:
            why = "is hooked" if pattern in hooked else "names no function of this toolkit"
            found.append(f"exclusions.txt:{number}: {pattern} {why}; remove the line")
    for name in sorted(unhooked - covered):
        if makes_or_ends_something(name):
            found.append(f"{name} is neither in hooks.def nor in exclusions.txt")
    for name in sorted(functions - with_row):
        if any(fnmatch.fnmatch(name, pattern) for pattern in FOLLOWED):
            found.append(f"{name} has no row in hooks.def: its failure goes unseen")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=pathlib.Path, required=True, help="folder with cuda.h")
    parser.add_argument("--hooks", type=pathlib.Path, required=True, help="interpose/driver/hooks.def")
    parser.add_argument("--exclusions", type=pathlib.Path, required=True, help="interpose/driver/exclusions.txt")
    parser.add_argument("--stub", type=pathlib.Path, help="the toolkit's stub libcuda.so; read when it exists")
    parser.add_argument("--prune-ok", action="store_true", help="allow exclusions that exclude nothing")
    arguments = parser.parse_args()

    functions = set()
    try:
        for header in HEADERS:
            path = arguments.include / header
            if path.exists() or header == "cuda.h":
                functions |= declared_functions(path.read_text(errors="replace"))
        if arguments.stub and arguments.stub.exists():
            functions |= exported_functions(arguments.stub)
        hooked, with_row = hooked_functions(arguments.hooks)
        found = problems(functions, hooked, with_row, exclusions(arguments.exclusions), arguments.prune_ok)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"list-unhooked: {error}", file=sys.stderr)
        return 2
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
