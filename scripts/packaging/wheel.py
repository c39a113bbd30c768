#!/usr/bin/env python3
"""Makes the wheel: scripts/packaging/wheel.py TREE PACKAGE README OUTPUT_FOLDER

TREE is an installed culprit (bin/, lib/, share/), PACKAGE the folder of the Python package (interpose/python), README
the text for the index. The wheel has the Python package as pip builds it, TREE inside it (culprit/_native/), and the
two commands as entry points (wheel_command.py). pip uninstalls a folder with all its folders only if a file lies
directly in it; data of the wheel, outside the package, would leave empty folders behind.

The tag says the oldest glibc that the files run with, by the policies of auditwheel. Prints the wheel's path.
"""
import base64
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import elf_versions

# Versions of glibc that have a policy: https://peps.python.org/pep-0600/ and auditwheel's manylinux-policy.json.
POLICIES = [(2, 17), (2, 24), (2, 26), (2, 27), (2, 28), (2, 31), (2, 34), (2, 35)]
# Files for compilers and packagers of an installed tree only.
LEFT_OUT = ("lib/cmake/", "lib/pkgconfig/")
ENTRY_POINTS = """
[console_scripts]
culprit = culprit._command:culprit
culprit-nightly = culprit._command:culprit_nightly
"""


def tag(tree):
    needed = elf_versions.newest_glibc(tree)
    policy = next(policy for policy in POLICIES if policy >= needed)
    return f"py3-none-manylinux_{policy[0]}_{policy[1]}_x86_64"


def pure_wheel(package, folder):
    """The wheel that pip makes of the Python package alone."""
    copy = folder / "source"  # setuptools writes into the folder
    shutil.copytree(package, copy, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    # Without a network the setuptools of this Python do.
    here = subprocess.run([sys.executable, "-c", "import setuptools, wheel"], capture_output=True, check=False)
    options = ["--no-build-isolation"] if here.returncode == 0 else []
    subprocess.run([sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps",
                    *options, "--wheel-dir", str(folder), str(copy)],
                   stdin=subprocess.DEVNULL, stdout=sys.stderr, check=True)
    return next(folder.glob("*.whl"))


def contents(pure, tree, readme, platform_tag):
    """(name, bytes, executable) of each file of the wheel but RECORD."""
    with zipfile.ZipFile(pure) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith(".dist-info/RECORD"):
                continue
            if name.endswith(".dist-info/WHEEL"):
                text = re.sub(r"^Root-Is-Purelib: .*$", "Root-Is-Purelib: false", data.decode(), flags=re.MULTILINE)
                data = re.sub(r"^Tag: .*$", f"Tag: {platform_tag}", text, flags=re.MULTILINE).encode()
            if name.endswith(".dist-info/entry_points.txt"):
                data += ENTRY_POINTS.encode()
            if name.endswith(".dist-info/METADATA"):
                head = data.decode().split("\n\n")[0].rstrip("\n") + "\nDescription-Content-Type: text/markdown\n\n"
                data = (head + readme.read_text(encoding="utf-8")).encode()
            yield name, data, False
    yield "culprit/_native/README", b"culprit: the command in bin/, the library for LD_PRELOAD in lib/.\n", False
    yield "culprit/_command.py", pathlib.Path(__file__).with_name("wheel_command.py").read_bytes(), False
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if path.is_file() and not name.startswith(LEFT_OUT):
            yield "culprit/_native/" + name, path.read_bytes(), os.access(path, os.X_OK)


def write(path, files, record_name):
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    when = time.gmtime(max(seconds, 315532800))[:6]  # a zip file knows no time before 1980
    record = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        def add(name, data, executable):
            info = zipfile.ZipInfo(name, when)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, data)
        for name, data, executable in files:
            add(name, data, executable)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}")
        add(record_name, "\n".join([*record, f"{record_name},,", ""]).encode(), False)


def main():
    tree, package, readme, output = (pathlib.Path(word) for word in sys.argv[1:5])
    with tempfile.TemporaryDirectory() as work:
        pure = pure_wheel(package, pathlib.Path(work))
        platform_tag = tag(tree)
        base = pure.name.split("-py3-")[0]
        path = output / f"{base}-{platform_tag}.whl"
        write(path, contents(pure, tree, readme, platform_tag), f"{base}.dist-info/RECORD")
    print(path)


if __name__ == "__main__":
    main()
