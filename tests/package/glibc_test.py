#!/usr/bin/env python3
"""No function of a glibc newer than 2.28, with which the packages run: glibc_test.py BUILD_FOLDER

The packages are not made in CI. The same calls show in a build with any glibc: a function that is new has a new
version, or one of the names below where a later glibc moved it between its libraries.
"""
import pathlib
import re
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1))
# glibc 2.33 and 2.34 gave old functions of libpthread, libdl and the stat family new versions.
MOVED = {(2, 33), (2, 34)}
NEW_NAMES = re.compile(r"pthread_(cond|mutex|rwlock)_clock\w+|sem_clockwait|mallinfo2|closefrom|_Fork|timespec_getres")
# Of the compiler's own libraries on a new distribution, or of its headers: those of build-toolchain.sh have none.
OF_COMPILER = re.compile(r"__libc_single_threaded|pthread_sigmask|_dl_find_object|arc4random|__isoc23_\w+")


def newer_functions(path):
    """name@version of the undefined symbols that glibc 2.28 lacks."""
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", str(path)], capture_output=True, text=True, check=True,
                          env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"}).stdout
    newer = []
    for name, *numbers in re.findall(r" UND (\w+)@GLIBC_(\d+)\.(\d+)", text):
        version = tuple(int(number) for number in numbers)
        is_new = NEW_NAMES.fullmatch(name) or (version > (2, 28) and version not in MOVED)
        if is_new and not OF_COMPILER.fullmatch(name):
            newer.append(f"{name}@{version[0]}.{version[1]}")
    return newer


class Glibc(unittest.TestCase):
    def test_no_newer_function_is_called(self):
        files = [BUILD / "bin" / "culprit", *sorted((BUILD / "lib").glob("libculprit*.so"))]
        self.assertGreater(len(files), 1)
        for path in files:
            with self.subTest(path=path.name):
                self.assertEqual(newer_functions(path), [])

    def test_a_newer_function_is_found(self):
        source = "double pow(double, double); double both(double x) { return pow(x, x); }"
        path = BUILD / "newer_function.so"
        try:
            subprocess.run(["cc", "-shared", "-fPIC", "-o", str(path), "-x", "c", "-", "-lm"], input=source, text=True,
                           check=True)
            self.assertEqual([name.partition("@")[0] for name in newer_functions(path)], ["pow"])
        finally:
            path.unlink(missing_ok=True)


unittest.main()
