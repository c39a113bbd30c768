#!/usr/bin/env python3
"""The completion of command lines in shells: completion_test.py CULPRIT FOLDER

bash and fish answer as a user would see it, zsh reads its script, where they are here.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

CULPRIT, FOLDER = sys.argv[1], pathlib.Path(sys.argv[2])
COMPLETE = """source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_culprit
printf '%s\\n' "${COMPREPLY[@]}"
"""


def bash(*words):
    run = subprocess.run(["bash", "-c", COMPLETE, "bash", FOLDER / "bash", "culprit", *words], capture_output=True,
                         text=True, timeout=60, check=True)
    return run.stdout.split()


def names_in_help(*command):
    text = subprocess.run([CULPRIT, *command, "--help"], capture_output=True, text=True, timeout=60, check=True).stdout
    return set(re.findall(r"^  (?:-\w,)?(--[a-z-]+)", text, re.MULTILINE)), text


class Completion(unittest.TestCase):
    def test_commands(self):
        self.assertEqual(bash("r"), ["run", "report"])
        self.assertEqual(bash("help", "sw"), ["sweep"])
        self.assertEqual(bash("completion", ""), ["bash", "fish", "zsh"])

    def test_each_command_has_the_options_of_its_help(self):
        for command in bash(""):
            expected, _ = names_in_help(command)
            self.assertEqual(set(bash(command, "--")), expected, command)

    def test_values(self):
        self.assertEqual(bash("run", "--format", "j"), ["json", "junit"])
        self.assertEqual(bash("report", "--format", "=", "ht"), ["html"])
        self.assertEqual(bash("report", "--kinds", "mana"), ["managed"])
        self.assertEqual(bash("run", "--depth", ""), [])
        self.assertEqual(bash("report", "-o", str(FOLDER / "ba")), [str(FOLDER / "bash")])

    def test_the_program_of_the_user(self):
        self.assertIn("/usr/bin/env", bash("run", "--keep", "--", "/usr/bin/en"))

    def test_other_shells_read_their_scripts(self):
        for shell in ("zsh", "fish"):
            text = (FOLDER / shell).read_text(encoding="utf-8")
            for command in bash(""):
                for name in names_in_help(command)[0]:
                    self.assertIn(name if shell == "zsh" else f" -l {name[2:]}", text, f"{shell}: {command}")
        if shutil.which("zsh"):
            # Without execution zsh ends with the status of its last condition.
            run = subprocess.run(["zsh", "-f", "-n", FOLDER / "zsh"], capture_output=True, text=True,
                                 timeout=60, check=False)
            self.assertEqual(run.stderr, "")
        if shutil.which("fish"):
            run = subprocess.run(["fish", "--no-config", "-c", f"source {FOLDER / 'fish'}; "
                                  "complete -C 'culprit run --format j'; complete -C 'culprit help sw'"],
                                 capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual([line.split("\t")[0] for line in run.stdout.splitlines()], ["json", "junit", "sweep"],
                             run.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
