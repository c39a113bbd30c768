#!/usr/bin/env python3
"""A script of ours that fails says why in its last line: last_line_test.py SOURCE_FOLDER

Runs each script with other programs in the place of the tools that it calls: all of them work, or one of them fails
without a word, or none is there. Nothing is installed, built or downloaded.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from concurrent import futures

ROOT = pathlib.Path(sys.argv[1]).resolve()
# Arguments of scripts. The others have none, or one required argument, a folder.
ARGUMENTS = {"debian-root.sh": ["bookworm", "build/deps"], "install-packages.sh": ["absent"],
             "gpu-test.sh": ["--check", "process", "build"], "check.sh": ["--only", "layers"]}
TAKES_FOLDER = re.compile(r"\$\{1:\?usage")
# These work on texts and files; a stand-in for them would prove nothing.
REAL = ("awk basename bash cat chmod comm cp cut date dirname env find grep head id ln ls mkdir mktemp mv nproc paste "
        "readlink realpath rm sed sha256sum sleep sort split stat tail tee touch tr uname uniq wc xargs").split()
STAND_INS = ("apt-cache apt-get ar ccache clang++ clang-format clang-format-14 clang-tidy-14 cmake codespell cpack "
             "ctest debootstrap dpkg-deb dpkg-query git go gzip ldconfig make ninja nvidia-smi patch patchelf pngquant "
             "python3 ruff setarch shellcheck strip sudo tar unshare xz").split()
# bash's own messages begin with the path of the script.
SAYS_WHY = re.compile(r"^(\S*/)?([\w-]+\.(sh|py)|run)(: line \d+)?: .*\w")


class LastLine(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="culprit-last-line-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in REAL:
            self.link(name, "tools")
        for name in STAND_INS:
            self.program(self.folder / "tools" / name, "exit 0")
        for name in (*REAL, *STAND_INS):
            self.program(self.folder / "fails" / name / name, "exit 3")
        for name in ("bash", "dirname"):
            self.link(name, "nothing")

    def link(self, name, folder):
        (self.folder / folder).mkdir(exist_ok=True)
        (self.folder / folder / name).symlink_to(shutil.which(name))

    @staticmethod
    def program(path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{shutil.which('bash')}\n{text}\n")
        path.chmod(0o755)

    def tree(self, number):
        """A folder with what the scripts look at, for one run: they write into it."""
        tree = self.folder / f"tree-{number}"
        for name in ("examples/out_of_memory_exception.cpp", "build/bin/process_test", "tests/bench/bench.py"):
            self.program(tree / name, "exit 0")
        for name in ("scripts", ".ci", "CMakeLists.txt"):
            (tree / name).symlink_to(ROOT / name)
        return tree

    def run_case(self, numbered_case):
        """The exit code and the last line, of stdout and stderr together."""
        number, (script, folder) = numbered_case
        tree = self.tree(number)
        arguments = ARGUMENTS.get(script.name, [])
        if not arguments and TAKES_FOLDER.search(script.read_text()):
            arguments = ["build/deps"]
        path = str(self.folder / folder) + (f":{self.folder}/tools" if folder.startswith("fails") else "")
        environment = {"PATH": path, "HOME": str(tree), "TMPDIR": str(tree), "CULPRIT_APT_PAUSE": "0"}
        done = subprocess.run([shutil.which("bash"), script.relative_to(ROOT), *arguments], cwd=tree, env=environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=100, check=False)
        shutil.rmtree(tree)
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        return done.returncode, lines[-1] if lines else ""

    def test_with_tools_that_fail(self):
        scripts = [*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci/run"]
        cases = []
        for script in scripts:
            words = set(re.findall(r"[\w+-]+", re.sub(r"^#.*", "", script.read_text(), flags=re.M)))
            tools = sorted(words & {*REAL, *STAND_INS} - {"bash", "env"})
            cases += [(script, "tools"), (script, "nothing"), *((script, f"fails/{tool}") for tool in tools)]
        with futures.ThreadPoolExecutor(4) as pool:
            done = list(pool.map(self.run_case, enumerate(cases)))
        wrong = [f"{script.name}, {folder}: exit code {code}, last line {line!r}"
                 for (script, folder), (code, line) in zip(cases, done) if code != 0 and not SAYS_WHY.match(line)]
        self.assertEqual(wrong, [], f"{len(wrong)} of {len(cases)} runs:\n" + "\n".join(wrong))
        # The tools do fail: else the test would prove nothing.
        self.assertGreater(sum(code != 0 for code, _ in done), len(cases) // 4)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
