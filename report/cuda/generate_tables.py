#!/usr/bin/env python3
"""Writes runtime_api_names.inc and cuda_result_names.inc from a CUDA toolkit's headers.

usage: report/cuda/generate_tables.py INCLUDE_FOLDER

The tables are committed, so that the culprit command builds and runs without CUDA. Run this for a new toolkit; names
that an older toolkit had are kept, because programs built with it are still around.
"""
import pathlib
import re
import sys

HEADERS = ["cuda_runtime_api.h", "cuda_profiler_api.h", "cuda_gl_interop.h", "cuda_egl_interop.h",
           "cuda_vdpau_interop.h"]
NOTICE = ("// Made by report/cuda/generate_tables.py from the CUDA toolkit's headers; do not edit.\n"
          "// clang-format off\n")


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    include = pathlib.Path(sys.argv[1])
    here = pathlib.Path(__file__).resolve().parent

    names = set()
    for header in HEADERS:
        path = include / header
        if path.exists():
            names.update(re.findall(r"\bCUDARTAPI(?:_CDECL)?\s+(cuda[A-Z]\w*)\s*\(", path.read_text(errors="replace")))
    names = {re.sub(r"(_v\d+|_ptsz|_ptds)+$", "", name) for name in names}
    table = here / "runtime_api_names.inc"
    if table.exists():
        names.update(re.findall(r'"(cuda\w+)"', table.read_text()))
    table.write_text(NOTICE + "".join(f'"{name}",\n' for name in sorted(names)))

    enum = re.search(r"typedef enum cudaError_enum \{(.*?)\} CUresult;", (include / "cuda.h").read_text(),
                     re.S).group(1)
    results = {int(code): name for name, code in re.findall(r"^\s+(CUDA_\w+)\s*=\s*(\d+)", enum, re.M)}
    table = here / "cuda_result_names.inc"
    if table.exists():
        for code, name in re.findall(r'\{(\d+), "(\w+)"\}', table.read_text()):
            results.setdefault(int(code), name)
    table.write_text(NOTICE + "".join(f'{{{code}, "{results[code]}"}},\n' for code in sorted(results)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
