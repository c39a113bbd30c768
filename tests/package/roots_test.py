#!/usr/bin/env python3
"""The packages in the root folders of Debian 11 and 12: roots_test.py SOURCE_FOLDER BUILD_FOLDER SUITE

Debian 11 has glibc 2.31, Python 3.9 and pip 20.3. Exit code 77: there are no packages, or no root folder can be made.
"""
import pathlib
import shutil
import subprocess
import sys

SOURCE, BUILD, SUITE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
# A namespace of its own: the mount ends with it. The run path of the command needs /proc.
IN_ROOT = ('mount -t proc proc "$0/proc" && '
           'exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root "$@"')


def main():
    packages = [path for pattern in ("culprit-*.tar.gz", "culprit_*.deb", "culprit_gpu-*.whl")
                for path in (BUILD / "package").glob(pattern) if "gpu-tests" not in path.name]
    if len(packages) != 3:
        print(f"skipped: {BUILD}/package has no complete set of packages; scripts/package.sh makes them")
        return 77
    made = subprocess.run([SOURCE / "scripts/debian-root.sh", SUITE, BUILD / "deps"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if made.returncode != 0:
        print("skipped:" if made.returncode == 77 else "failed:", made.stdout)
        return made.returncode
    root = BUILD / "deps/roots" / SUITE
    folder = root / "tmp/culprit-test"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        for path in [*packages, SOURCE / "tests/package/in_root.py", SOURCE / "tests/package/wheel_use.py"]:
            shutil.copy(path, folder)
        inside = ["/tmp/culprit-test/" + name for name in ("in_root.py", *(path.name for path in packages))]
        return subprocess.run(["unshare", "--mount", "--fork", "sh", "-c", IN_ROOT, root, "python3", "-B", *inside],
                              stdin=subprocess.DEVNULL, timeout=500, check=False).returncode
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
