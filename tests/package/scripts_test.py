#!/usr/bin/env python3
"""The scripts that get what a build needs: scripts_test.py SCRIPTS_FOLDER

install-packages.sh with other programs in the place of apt-get and dpkg-query, fetch.py with files of this machine.
"""
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(sys.argv[1])
TOOLS = ("awk", "bash", "cat", "dirname", "env", "grep", "id", "mktemp", "rm", "sleep")


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="culprit-scripts-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def run_script(self, name, *arguments, **environment):
        return subprocess.run([SCRIPTS / name, *arguments], env=environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)


class Help(InFolder):
    def test_each_script_tells_its_usage_and_does_nothing(self):
        for script in sorted(SCRIPTS.glob("*.sh")):
            if script.name in ("fail.sh", "bench.sh", "nightly.sh"):  # no script, and two with a program's own help
                continue
            with self.subTest(script.name):
                done = self.run_script(script.name, "--help", PATH=os.environ["PATH"], HOME=str(self.folder))
                first = script.read_text().splitlines()[1].lstrip("# ")
                self.assertEqual((done.returncode, done.stderr, done.stdout.splitlines()[:1]), (0, "", [first]))


class InstallPackages(InFolder):
    def setUp(self):
        super().setUp()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))

    def program(self, name, text):
        path = self.bin / name
        path.write_text("#!/bin/bash\n" + text)
        path.chmod(0o755)

    def install(self, *packages):
        return self.run_script("install-packages.sh", *packages, PATH=str(self.bin), CULPRIT_APT_PAUSE="0",
                               LOG=str(self.folder / "log"))

    def with_apt(self, apt_get):
        self.program("dpkg-query", '[ "${!#}" = present ] && echo "install ok installed"')
        self.program("id", "echo 0")
        self.program("apt-get", 'echo "$*" >>"$LOG"\n' + apt_get)

    def calls(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def test_installs_what_is_missing(self):
        self.with_apt("exit 0")
        done = self.install("present", "absent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(self.calls()[-1], r"^-qq -o DPkg::Lock::Timeout=\d+ install .* absent$")
        self.assertEqual([call for call in self.calls() if "present" in call], [])

    def test_calls_nothing_when_all_are_there(self):
        self.with_apt("exit 1")
        done = self.install("present")
        self.assertEqual((done.returncode, done.stderr, self.calls()), (0, "", []))

    def test_waits_for_another_apt(self):
        self.with_apt('[ "$(grep -c update "$LOG")" -ge 3 ] && exit 0\n'
                      "echo 'E: Could not get lock /var/lib/apt/lists/lock. It is held by process 1' >&2\nexit 100")
        done = self.install("absent")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("waiting for another apt"), 1)
        self.assertEqual(len([call for call in self.calls() if "update" in call]), 3)

    def test_other_errors_end_at_once(self):
        self.with_apt("echo 'E: Unable to locate package absent' >&2\nexit 100")
        done = self.install("absent")
        self.assertEqual((done.returncode, len(self.calls())), (100, 2), done.stderr)
        self.assertIn("Unable to locate package absent", done.stderr)

    def test_names_packages_for_dnf_and_conda(self):
        done = self.install("g++", "libdw-dev", "node-d3", "unheard-of")
        self.assertEqual(done.returncode, 0)
        self.assertIn("  dnf install gcc-c++ elfutils-devel unheard-of\n", done.stderr)
        self.assertIn("  conda install -c conda-forge gxx elfutils unheard-of\n", done.stderr)
        self.assertIn("-DCULPRIT_D3=FILE", done.stderr)

    def test_each_package_of_the_build_has_its_names(self):
        """Fails when build.sh or package.sh wants a package that packages.txt has no row for."""
        rows = {line.split()[0]: line.split() for line in (SCRIPTS / "packages.txt").read_text().splitlines()
                if line.strip() and not line.startswith("#")}
        self.assertEqual({name: len(row) for name, row in rows.items() if len(row) != 3}, {})
        for script in ("build.sh", "package.sh"):
            text = (SCRIPTS / script).read_text().replace("\\\n", " ")
            wanted = [word for line in text.splitlines() if "install-packages.sh" in line and not line.startswith("#")
                      for word in line.split("install-packages.sh")[1].split() if word[0] not in "\"$&|"]
            self.assertTrue(wanted, script)
            self.assertEqual([word for word in wanted if word not in rows], [], script)


class Fetch(InFolder):
    def setUp(self):
        super().setUp()
        self.place = self.folder / "there" / "file.txt"
        self.place.parent.mkdir()
        self.place.write_text("content")
        self.hash = hashlib.sha256(b"content").hexdigest()

    def fetch(self, wanted, place, **environment):
        listed = self.folder / "list"
        listed.write_text(f"# a comment\n\n{wanted} {place}\n")
        return self.run_script("fetch.py", str(listed), str(self.folder / "here"), PATH=os.environ["PATH"],
                               **environment)

    def test_gets_a_file_once(self):
        here = self.folder / "here" / "file.txt"
        done = self.fetch(self.hash, self.place.as_uri())
        self.assertEqual((done.returncode, done.stdout), (0, f"{here}\n"), done.stderr)
        self.assertEqual(here.read_text(), "content")
        self.place.unlink()
        self.assertEqual(self.fetch(self.hash, self.place.as_uri()).returncode, 0)

    def test_refuses_another_content(self):
        self.place.write_text("evil")
        done = self.fetch(self.hash, self.place.as_uri())
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"expected {self.hash}", done.stderr)
        self.assertFalse((self.folder / "here" / "file.txt").exists())

    def test_takes_files_that_the_packager_brought(self):
        done = self.fetch(self.hash, "https://localhost:1/file.txt", CULPRIT_DOWNLOADS=str(self.place.parent))
        self.assertEqual((done.returncode, done.stdout), (0, f"{self.place}\n"), done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
