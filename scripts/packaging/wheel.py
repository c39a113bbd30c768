#!/usr/bin/env python3
"""Makes the wheel: scripts/packaging/wheel.py TREE PACKAGE README OUTPUT_FOLDER

TREE is an installed culprit (bin/, lib/, share/), PACKAGE the folder of the Python package (interpose/python_package),
README the text for the index. The wheel has the Python package as pip builds it, TREE inside it (culprit/_native/), and
the two commands as entry points (wheel_command.py). pip uninstalls a folder with all its folders only if a file lies
directly in it; data of the wheel, outside the package, would leave empty folders behind.

The tag says the oldest glibc that the files run with, by the policies of auditwheel. Prints the wheel's path.

README's links go to files of the repository, which an index does not have: they become links to the repository at the
version's tag. Its address is in CULPRIT_URL, or that of the workflow (GITHUB_SERVER_URL, GITHUB_REPOSITORY), or of
git's remote "origin". Without an address only the text of such a link stays.
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
# Files for compilers and packagers of an installed tree only, and files that the wheel has in another place: the
# Python package, D3's licence (share/culprit/nightly/d3-licence).
LEFT_OUT = ("lib/cmake/", "lib/pkgconfig/", "share/culprit/python/", "share/doc/culprit/licences/node-d3")
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


def repository_url():
    """https://server/owner/name; "": not known."""
    environment = os.environ
    if environment.get("CULPRIT_URL"):
        return environment["CULPRIT_URL"].rstrip("/")
    if environment.get("GITHUB_SERVER_URL") and environment.get("GITHUB_REPOSITORY"):
        return environment["GITHUB_SERVER_URL"] + "/" + environment["GITHUB_REPOSITORY"]
    asked = subprocess.run(["git", "remote", "get-url", "origin"], cwd=os.path.dirname(os.path.abspath(__file__)),
                           capture_output=True, text=True, check=False).stdout.strip()
    found = re.fullmatch(r"(?:https://(?:[^@/]*@)?|git@|ssh://git@)([\w.-]+)[/:]([\w./-]+?)(?:\.git)?/?", asked)
    return f"https://{found[1]}/{found[2]}" if found else ""


def with_absolute_links(text, url, version):
    """The Markdown text with links that work outside of the repository. Code blocks are left alone."""
    def absolute(link):
        is_picture, words, target = link[1], link[2], link[3]
        if re.match(r"[a-z]+:|#", target):
            return link[0]
        if not url:
            return words
        return f"{is_picture}[{words}]({url}/{'raw' if is_picture else 'blob'}/v{version}/{target})"
    # Blocks of code stand between fences, or have four spaces in front.
    inside, result = False, []
    for line in text.splitlines(keepends=True):
        fence = line.startswith("```")
        inside ^= fence
        result.append(line if inside or fence or line.startswith("    ")
                      else re.sub(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)", absolute, line))
    return "".join(result)


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
                head = data.decode().split("\n\n")[0].rstrip("\n") + "\nDescription-Content-Type: text/markdown\n"
                url, version = repository_url(), re.search(r"^Version: (\S+)$", head, re.MULTILINE)[1]
                head += f"Project-URL: Repository, {url}\n" if url else ""
                data = (head + "\n" + with_absolute_links(readme.read_text(encoding="utf-8"), url, version)).encode()
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
