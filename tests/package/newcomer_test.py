#!/usr/bin/env python3
"""The first minute of a newcomer: newcomer_test.py SOURCE_FOLDER BUILD_FOLDER

Clones the repository into an empty folder, with what is not committed yet, and runs scripts/demo.sh there: it must end
with 0 and print the report of README.md. First with a package beside it, made of BUILD_FOLDER, then without one: that
builds the library, the command and the example. The compiler takes objects from the cache (ccache) that the build of
scripts/test.sh has filled, and puts none there: those of the clone name its folder. Exit code 77: no git repository.
"""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
EXAMPLE = "out_of_memory_exception"


def run(*command, cwd=None, **environment):
    done = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **environment},
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=1100, check=False)
    if done.returncode != 0:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout}")
    return done.stdout


def git(*arguments, cwd=SOURCE, text=None):
    """With a configuration of its own: a repository that belongs to another user, as in a container, is no obstacle."""
    with tempfile.NamedTemporaryFile("w", suffix=".gitconfig") as config:
        config.write("[safe]\n\tdirectory = *\n")
        config.flush()
        return subprocess.run(["git", *map(str, arguments)], cwd=cwd, input=text, check=True, capture_output=True,
                              env={**os.environ, "GIT_CONFIG_GLOBAL": config.name}).stdout


def clone(folder):
    git("clone", "--quiet", SOURCE, folder)
    changes = git("diff", "--binary", "HEAD")
    if changes:
        git("apply", "--whitespace=nowarn", "-", cwd=folder, text=changes)
    for name in git("ls-files", "-z", "--others", "--exclude-standard").decode().split("\0"):
        if name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(SOURCE / name, folder / name, follow_symlinks=False)


def package(folder):
    """A package as scripts/package.sh makes it, of the programs of BUILD_FOLDER."""
    tree = folder / "culprit-0.0.0-linux-x86_64"
    run("cmake", "--install", BUILD, "--prefix", tree)
    demo = tree / "lib/culprit/demo"
    (demo / "driver").mkdir(parents=True)
    shutil.copy(BUILD / "examples" / EXAMPLE, demo)
    for name in ("libcuda.so.1", "libcudart.so.13"):
        shutil.copy(BUILD / "simcuda" / name, demo / "driver")
    archive = folder / f"{tree.name}.tar.gz"
    run("tar", "-C", folder, "--use-compress-program=gzip -1", "-cf", archive, tree.name)
    shutil.rmtree(tree)
    return archive


def processor_seconds():
    """Of the commands that ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def masked(text):
    """Without numbers and names that differ from run to run, and a note of runs of more than a second."""
    text = re.sub(r"^note +processes that use a GPU unseen were looked for.*\n", "", text, flags=re.M)
    masks = {r"\[\d+\] on \S+": "[PID] on HOST", r"thread +\d+": "thread TID", rf"\S*/{EXAMPLE}": EXAMPLE,
             r"\b[\d.]+ (ns|us|ms|s)\b": "TIME"}
    for pattern, mask in masks.items():
        text = re.sub(pattern, mask, text)
    return text


class Newcomer(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="newcomer-", dir=BUILD))
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone = self.folder / "culprit"
        clone(self.clone)
        readme = (SOURCE / "README.md").read_text(encoding="utf-8")
        self.report = re.search(r"^```\n\$ scripts/demo\.sh\n(.*?)^```$", readme, re.M | re.S)[1]
        self.gpu = subprocess.run([SOURCE / "scripts/has-gpu.sh"], capture_output=True, check=False).returncode == 0

    def demo(self):
        screen = run("scripts/demo.sh", cwd=self.clone, CULPRIT_DOWNLOADS=self.downloads(), **self.cache())
        if self.gpu:
            self.assertIn("LEAKED 256 MiB in 4 allocations, 1 group", screen)
        else:
            # The script says what it builds before.
            self.assertEqual(masked(screen)[-len(masked(self.report)):], masked(self.report), screen)
        return screen

    @staticmethod
    def cache():
        """Settings under which the objects of BUILD_FOLDER are found in its cache: those of scripts/test.sh."""
        folder = BUILD / "ccache"
        if not shutil.which("ccache") or not ("CCACHE_DIR" in os.environ or folder.exists()):
            return {}
        ours = {"CCACHE_DIR": str(folder), "CCACHE_BASEDIR": str(SOURCE), "CCACHE_NOHASHDIR": "1", "CCACHE_DEPEND": "1",
                "CCACHE_SLOPPINESS": "locale"}
        launchers = {f"CMAKE_{language}_COMPILER_LAUNCHER": "ccache" for language in ("C", "CXX")}
        return {**({} if "CCACHE_DIR" in os.environ else ours), **launchers, "CCACHE_READONLY": "1"}

    @staticmethod
    def downloads():
        """Files that the build has downloaded, so that the test needs no network where the build needed none."""
        folder = BUILD / "deps/downloads"
        return os.environ.get("CULPRIT_DOWNLOADS") or (str(folder) if folder.exists() else "")

    def test_first_command(self):
        archive = package(self.folder)
        beside = shutil.copy(archive, self.clone)
        self.assertIn(f"demo.sh: with ./{archive.name}", self.demo())
        self.assertFalse((self.clone / "build").exists())
        (self.clone / "build/package").mkdir(parents=True)
        shutil.move(beside, self.clone / "build/package")
        self.assertIn(f"demo.sh: with build/package/{archive.name}", self.demo())

        shutil.rmtree(self.clone / "build")
        before = processor_seconds()
        self.demo()
        self.assertTrue((self.clone / "build/bin/culprit").exists())
        print(f"scripts/demo.sh in a fresh clone: {processor_seconds() - before:.0f} s of processor time")


if __name__ == "__main__":
    if not (SOURCE / ".git").exists() or not shutil.which("git"):
        print(f"{SOURCE} is no git repository")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
