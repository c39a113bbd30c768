"""The newest version of glibc that ELF files need, from the versions of their undefined symbols.

    python3 scripts/packaging/elf_versions.py FOLDER     prints it, for all ELF files below FOLDER
"""
import pathlib
import re
import subprocess
import sys


def elf_files(folder):
    """All ELF files below a folder; links are left out."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink():
            with open(path, "rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def needed_versions(path):
    """{"GLIBC": {(2, 14), ...}, "GLIBCXX": ...}: the versions that the undefined symbols of a file name."""
    text = subprocess.run(["readelf", "--version-info", "--wide", str(path)], capture_output=True, text=True,
                          check=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    needs = text.partition("Version needs section")[2]
    versions = {}
    for name, number in re.findall(r"Name: (\w+?)_([\d.]+) ", needs):
        versions.setdefault(name, set()).add(tuple(int(part) for part in number.split(".")))
    return versions


def newest_glibc(folder):
    """The newest version of glibc that a file below the folder needs, as (2, 28); ValueError: there is no ELF file."""
    return max(version for path in elf_files(folder) for version in needed_versions(path).get("GLIBC", ()))


if __name__ == "__main__":
    print(".".join(str(part) for part in newest_glibc(sys.argv[1])))
