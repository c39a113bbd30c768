#!/usr/bin/env python3
"""scripts/nightly.sh and the workflows of examples/ci, run as their users run them: ci_test.py SOURCE BUILD

The workflows' own lines are run in a project of two tests, all but those that get and build culprit: BUILD is there.
"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (pathlib.Path(argument) for argument in sys.argv[1:3])
del sys.argv[1:3]
ENVIRONMENT = {**os.environ, "LD_LIBRARY_PATH": str(BUILD / "simcuda"), "NO_COLOR": "1"}
ENVIRONMENT.pop("CULPRIT_OUT", None)


def subject(name):
    return str(BUILD / "subjects" / name)


def shell(line, folder, **more):
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", line], cwd=folder, env={**ENVIRONMENT, **more},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-ci-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Nightly(InFolder):
    def night(self, commands, *options):
        if commands is not None:
            (self.folder / "commands").write_text(commands, encoding="utf-8")
        words = [str(SOURCE / "scripts" / "nightly.sh"), "--commands", "commands", "--history", "history", *options]
        return subprocess.run(words, cwd=self.folder, env={**ENVIRONMENT, "CULPRIT": ""}, capture_output=True,
                              text=True, timeout=100, check=False)

    def run_night(self, commands, *options):
        return self.night(commands, "--culprit", str(BUILD / "bin" / "culprit"), *options)

    def nights(self):
        return [json.loads(path.read_text()) for path in sorted((self.folder / "history").glob("*.json"))]

    def test_nights_are_kept_compared_and_drawn(self):
        first = self.run_night(f"# what runs\nmain <test>: {subject('driver_leak_one')}\n"
                               f"clean: {subject('free_null')}\n",
                               "--build", "touch built")
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertTrue((self.folder / "built").exists())
        night = self.nights()[0]
        self.assertEqual([one["name"] for one in night["commands"]], ["main <test>", "clean"])
        self.assertEqual(night["commands"][0]["leaked_bytes"], 11001)
        self.assertEqual(night["commands"][0]["new"], 0)  # without a night to compare with
        self.assertEqual(night["commands"][1]["leaks"], [])

        same = self.run_night(None)
        self.assertEqual(same.returncode, 0, same.stdout)
        worse = self.run_night(f"main <test>: {subject('driver_leak_one')}; {subject('end_how')} return\n"
                               f"clean: {subject('free_null')}; exit 3\n")
        self.assertEqual(worse.returncode, 1, worse.stdout)
        nights = self.nights()
        self.assertEqual(len(nights), 3)
        self.assertEqual([one["commands"][0]["new"] for one in nights], [0, 0, 1])
        self.assertEqual(nights[2]["commands"][1]["exit_code"], 3)
        self.assertIn("1 new", worse.stdout)
        self.assertIn("exit code 3", worse.stdout)
        # It was said once; it goes on failing.
        self.assertEqual(self.run_night(None).returncode, 0)

        page = (self.folder / "history" / "index.html").read_text(encoding="utf-8")
        html.parser.HTMLParser().feed(page)
        self.assertIn("main &lt;test&gt;", page)
        self.assertNotIn("<test>", page)
        self.assertEqual(page.count("<rect"), 8)
        self.assertEqual(page.count('class="worse"'), 1)
        self.assertIn(nights[0]["commands"][0]["leaks"][0]["id"], page)
        self.assertNotRegex(page, r"(src|href)=")

    def test_a_command_that_hangs_is_killed(self):
        done = self.run_night("slow: sleep 1000\n", "--timeout", "0.5")
        self.assertEqual(done.returncode, 1, done.stderr)
        command = self.nights()[0]["commands"][0]
        self.assertEqual(command["exit_code"], "timeout")
        self.assertTrue(command["unknown"])

    def test_what_cannot_be_used_is_named(self):
        self.assertEqual(self.night("x: true\n", "--timeout", "0").returncode, 2)
        missing = self.night("x: true\n", "--culprit", "/nonexistent/culprit")
        self.assertEqual(missing.returncode, 3)
        self.assertIn("/nonexistent/culprit", missing.stderr)
        for bad, part in (("no colon here\n", "commands:1"), ("", "no command"), ("a: true\na: true\n", "commands:2")):
            done = self.run_night(bad)
            self.assertEqual(done.returncode, 3)
            self.assertIn(part, done.stderr)
        failed = self.run_night("x: true\n", "--build", "false")
        self.assertEqual(failed.returncode, 3)
        self.assertIn("the build failed", failed.stderr)
        (self.folder / "history" / "0.json").write_text("{", encoding="utf-8")
        damaged = self.run_night("x: true\n")
        self.assertEqual(damaged.returncode, 3)
        self.assertIn("0.json", damaged.stderr)


def github_steps(text):
    """The (name, script) pairs of the steps that run something."""
    steps = []
    for match in re.finditer(r"^( +)- name: (.+)\n\1  run: \|\n((?:\1    .*\n)+)", text, re.MULTILINE):
        lines = [line[len(match[1]) + 4:] for line in match[3].splitlines()]
        steps.append((match[2], "\n".join(lines)))
    return steps


def gitlab_steps(text):
    steps = []
    for match in re.finditer(r"^    (?:# (.+)|- (.+))$", text, re.MULTILINE):
        if match[1]:
            steps.append((match[1], ""))
        elif steps:
            steps[-1] = (steps[-1][0], (steps[-1][1] + "\n" + match[2]).strip())
    return [step for step in steps if step[1]]


class Workflows(InFolder):
    NAMES = ["Build culprit", "Install culprit", "Build", "Test under culprit", "Report", "Fail on new leaks"]

    def project(self, tests):
        """A project whose tests are programs that are there already."""
        lines = ["cmake_minimum_required(VERSION 3.20)", "project(demo NONE)", "enable_testing()"]
        lines += [f"add_test(NAME {name} COMMAND {subject(name)})" for name in tests]
        (self.folder / "CMakeLists.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def follow(self, steps):
        """Runs the steps like a runner, the first that fails ends the job; returns its name, or None."""
        path = self.folder / "path"
        path.write_text("", encoding="utf-8")
        for name, script in steps:
            if name == "Build culprit":
                # The step provides the sources, and their build.
                culprit = self.folder / "culprit"
                if not culprit.exists():
                    culprit.mkdir()
                    (culprit / "build").symlink_to(BUILD)
                continue
            tools = ":".join(path.read_text(encoding="utf-8").split())
            done = shell(script, self.folder, GITHUB_PATH=str(path), GITHUB_STEP_SUMMARY=str(self.folder / "summary"),
                         PATH=f"{tools}:{self.folder}/tools/bin:{os.environ['PATH']}")
            if done.returncode != 0:
                self.last = done.stdout + done.stderr
                return name
        return None

    def check(self, steps):
        self.assertEqual([name for name, _ in steps], self.NAMES)
        self.assertIn("git clone", steps[0][1])
        self.assertIn("scripts/build.sh", steps[0][1])
        self.project(["driver_leak_one", "free_null"])
        # Without a baseline the last step says that one is needed.
        self.assertEqual(self.follow(steps), "Fail on new leaks")
        self.assertIn("leaks.json", self.last)
        made = shell("tools/bin/culprit report dumps/*.dump --write-baseline leaks.json", self.folder)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertEqual(self.follow(steps), None, getattr(self, "last", ""))
        self.assertIn("driver_leak_one", (self.folder / "leaks.md").read_text(encoding="utf-8"))
        sarif = json.loads((self.folder / "leaks.sarif").read_text(encoding="utf-8"))
        self.assertTrue(any(run["results"] for run in sarif["runs"]))
        shutil.rmtree(self.folder / "build")
        self.project(["driver_leak_one", "device_reset"])
        self.assertEqual(self.follow(steps), "Fail on new leaks")
        self.assertIn("NEW", self.last)

    def test_github_actions(self):
        self.check(github_steps((SOURCE / "examples" / "ci" / "github-actions.yml").read_text(encoding="utf-8")))
        self.assertIn("Leaked", (self.folder / "summary").read_text(encoding="utf-8"))

    def test_gitlab_ci(self):
        self.check(gitlab_steps((SOURCE / "examples" / "ci" / "gitlab-ci.yml").read_text(encoding="utf-8")))


if __name__ == "__main__":
    unittest.main()
