#!/usr/bin/env python3
"""The packages of scripts/package.sh: artefacts_test.py SOURCE_FOLDER BUILD_FOLDER

The files of the tar.gz, the Debian package and the wheel, and the wheel in a virtual environment of this machine.
Exit code 77: there are no packages in BUILD_FOLDER/package. roots_test.py runs them in old distributions.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE, BUILD = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
PACKAGES = BUILD / "package"
sys.path.insert(0, str(SOURCE / "scripts" / "packaging"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import elf_versions  # noqa: E402
import wheel_use  # noqa: E402

OLDEST_GLIBC = (2, 28)
GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
# Every Debian has them, because dpkg needs them.
OF_DPKG = {"libz.so.1", "liblzma.so.5", "libbz2.so.1.0"}


def only(pattern):
    """The one file in the folder of packages whose name matches."""
    found = [path for path in PACKAGES.glob(pattern) if "gpu-tests" not in path.name]
    return found[0] if len(found) == 1 else None


TARBALL, DEB, WHEEL = only("culprit-*.tar.gz"), only("culprit_*.deb"), only("culprit_gpu-*.whl")


def output_of(*command, **more):
    run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                         timeout=300, check=False, **more)
    if run.returncode != 0:
        raise AssertionError(f"{command}: {run.returncode}\n{run.stdout}")
    return run.stdout


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="culprit-artefacts-"))
        cls.addClassCleanup(shutil.rmtree, cls.work)
        for name in ("tar", "deb", "wheel"):
            (cls.work / name).mkdir()
        output_of("tar", "-C", str(cls.work / "tar"), "-xzf", str(TARBALL))
        with zipfile.ZipFile(WHEEL) as archive:
            archive.extractall(cls.work / "wheel")
        cls.trees = {"tar": next((cls.work / "tar").iterdir()),
                     "wheel": cls.work / "wheel/culprit/_native"}
        if shutil.which("dpkg-deb"):
            output_of("dpkg-deb", "-x", str(DEB), str(cls.work / "deb"))
            cls.trees["deb"] = cls.work / "deb" / "usr"

    def each_elf(self):
        for kind, tree in self.trees.items():
            files = list(elf_versions.elf_files(tree))
            self.assertGreaterEqual(len(files), 7, kind)
            for path in files:
                yield kind, tree, path

    def test_checksums(self):
        listed = dict(line.split()[::-1] for line in (PACKAGES / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(listed, {path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                                  for path in (TARBALL, DEB, WHEEL)})

    def test_versions_of_all_symbols(self):
        for kind, tree, path in self.each_elf():
            with self.subTest(kind=kind, file=str(path.relative_to(tree))):
                versions = elf_versions.needed_versions(path)
                self.assertLessEqual(max(versions["GLIBC"]), OLDEST_GLIBC)
                if path.name == "libculprit.so":
                    self.assertEqual(versions, {"GLIBC": {(2, 2, 5)}})

    def test_the_library_imports_no_function(self):
        allowed = {line.split()[0] for line in (SOURCE / "tests/process/imports.txt").read_text().splitlines()
                   if line and not line.startswith("#")} | {"_environ"}  # a third name of environ in older versions
        for kind, tree in self.trees.items():
            symbols = output_of("nm", "-D", "--undefined-only", str(tree / "lib/libculprit.so")).split()
            names = {word.partition("@")[0] for word in symbols if len(word) > 1}
            self.assertEqual(names - allowed, set(), kind)

    def test_nothing_is_needed_beyond_glibc(self):
        for kind, tree, path in self.each_elf():
            if path.name == "out_of_memory_exception":
                continue  # a C++ program, as a user would compile it
            with self.subTest(kind=kind, file=str(path.relative_to(tree))):
                needed = set(re.findall(r"NEEDED.*\[(.*)\]", output_of("readelf", "-d", str(path))))
                here = {file.name for file in (tree / "lib/culprit").iterdir()}
                self.assertEqual(needed - GLIBC - here - (OF_DPKG if kind == "deb" else set()), set())

    def test_all_have_the_same_programs_and_pages(self):
        for name in ("bin/culprit", "lib/libculprit.so", "include/culprit.h", "share/culprit/nightly/nightly.py",
                     "share/doc/culprit/examples/out_of_memory_exception.cpp",
                     "share/doc/culprit/examples/python/memory_pool.py",
                     "share/doc/culprit/report/manual/first-leak.md"):
            self.assertEqual(len({(tree / name).read_bytes() for tree in self.trees.values()}), 1, name)
        package = {(tree / "share/culprit/python/culprit" if kind != "wheel" else tree.parent) for kind, tree
                   in self.trees.items()}
        for name in "__init__.py", "py.typed":
            self.assertEqual(len({(folder / name).read_bytes() for folder in package}), 1, name)
        for kind, tree in self.trees.items():
            for page in ("man1/culprit.1", "man7/libculprit.so.7", "man7/culprit-first-leak.7"):
                file = tree / "share/man" / (page + (".gz" if kind == "deb" else ""))
                self.assertTrue(file.is_file(), file)

    def test_completion_of_command_lines(self):
        for kind, tree in self.trees.items():
            zsh = "vendor-completions" if kind == "deb" else "site-functions"
            for name in ("bash-completion/completions/culprit", f"zsh/{zsh}/_culprit",
                         "fish/vendor_completions.d/culprit.fish"):
                text = (tree / "share" / name).read_text(encoding="utf-8")
                self.assertIn("no-framework-caches", text, (kind, name))

    def test_licences_of_all_parts(self):
        parts = {"elfutils", "libunwind", "zlib1g", "liblzma5", "libbz2-1.0", "gcc-11-base", "libfmt-dev",
                 "libspdlog-dev", "libcli11-dev", "nlohmann-json3-dev", "libutf8proc-dev", "libtinfo6", "node-d3",
                 "prometheus-cpp", "civetweb", "zstd", "lz4"}
        for kind in ("tar", "wheel"):
            folder = self.trees[kind] / "share/doc/culprit/licences"
            elsewhere = {"node-d3"} if kind == "wheel" else set()  # share/culprit/nightly/d3-licence
            self.assertEqual({path.name for path in folder.iterdir()}, parts - elsewhere, kind)
        if "deb" in self.trees:
            text = (self.trees["deb"] / "share/doc/culprit/copyright").read_text(encoding="utf-8")
            self.assertEqual([part for part in parts if f"\n{part}\n=======\n" not in text], [])

    def test_the_wheel_holds_each_file_once(self):
        names = {}
        with zipfile.ZipFile(WHEEL) as archive:
            for information in archive.infolist():
                data = archive.read(information)
                if data:
                    names.setdefault(hashlib.sha256(data).digest(), []).append(information.filename)
        self.assertEqual([several for several in names.values() if len(several) > 1], [])

    def test_the_links_of_the_index_page_are_absolute(self):
        with zipfile.ZipFile(WHEEL) as archive:
            name = next(name for name in archive.namelist() if name.endswith("/METADATA"))
            text = archive.read(name).decode()
        links = re.findall(r"\]\(([^()\s]+)\)", text)
        self.assertEqual([link for link in links if not link.startswith(("https://", "#"))], [])

    def test_the_tag_of_the_wheel_is_auditwheels(self):
        tool = BUILD / "deps" / "auditwheel"
        if not (tool / "auditwheel").is_dir():
            self.skipTest("no auditwheel (scripts/package.sh gets it from PyPI)")
        said = output_of(sys.executable, "-m", "auditwheel", "show", str(WHEEL),
                         env={**os.environ, "PYTHONPATH": str(tool)})
        tag = re.search(r'following platform tag:\s+"(\S+)"', said)
        self.assertIsNotNone(tag, said)
        self.assertIn(f"-{tag.group(1)}.whl", WHEEL.name)

    def test_lintian_finds_no_error(self):
        if not shutil.which("lintian"):
            self.skipTest("no lintian (scripts/install-packages.sh lintian)")
        run = subprocess.run(["lintian", "--allow-root", "--fail-on", "error", str(DEB)], stdin=subprocess.DEVNULL,
                             capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual((run.returncode, re.findall("^E: .*", run.stdout, re.MULTILINE)), (0, []), run.stdout)


class Wheel(unittest.TestCase):
    def test_install_run_pytest_uninstall(self):
        python = wheel_use.python_with_venv()
        if python is None:
            self.skipTest("no python3 here can make a virtual environment (python3-venv)")
        with tempfile.TemporaryDirectory(prefix="culprit-wheel-") as folder:
            wheel_use.check(self, python, WHEEL, pathlib.Path(folder), output_of)


class Demo(unittest.TestCase):
    def test_needs_no_compiler(self):
        with tempfile.TemporaryDirectory(prefix="culprit-demo-") as folder:
            for tool in ("bash", "dirname", "realpath", "mktemp", "tar", "gzip", "rm", "grep", "sed", "env", "cat"):
                os.symlink(shutil.which(tool), os.path.join(folder, tool))
            said = output_of(str(SOURCE / "scripts/demo.sh"), "--package", str(TARBALL),
                             env={"PATH": folder, "HOME": folder, "DEBUGINFOD_URLS": ""})
        self.assertIn("LEAKED 256 MiB in 4 allocations", said)
        self.assertIn("out_of_memory_exception.cpp:36  solve_step", said)


if __name__ == "__main__":
    if None in (TARBALL, DEB, WHEEL):
        print(f"skipped: {PACKAGES} has no complete set of packages; scripts/package.sh makes them")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
