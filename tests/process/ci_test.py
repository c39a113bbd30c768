#!/usr/bin/env python3
"""culprit-nightly and the workflows of examples/ci, run as their users run them: ci_test.py SOURCE BUILD

The steps of the workflows and of the action are run in a project of some tests, all but building culprit: BUILD is
packed.
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
    """culprit-nightly of the build, and as it is installed."""
    # The command, and the culprit beside it.
    BIN = BUILD / "bin"

    def night(self, commands, *options, program=None):
        if commands is not None:
            (self.folder / "commands").write_text(commands, encoding="utf-8")
        words = [str(program or self.BIN / "culprit-nightly"), "--commands", "commands", "--history", "history",
                 *options]
        return subprocess.run(words, cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=100, check=False)

    def accept(self, *options):
        words = [str(self.BIN / "culprit-nightly"), "accept", "--history", "history", *options]
        return subprocess.run(words, cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=100, check=False)

    def nights(self):
        return [json.loads(path.read_text()) for path in sorted((self.folder / "history").glob("*.json"))]

    def last(self, number=0):
        return self.nights()[-1]["commands"][number]

    def page(self):
        """The data of the trend page."""
        text = (self.folder / "history" / "index.html").read_text(encoding="utf-8")
        html.parser.HTMLParser().feed(text)
        self.assertNotIn("{{", text)
        self.assertNotRegex(text, r"(src|href)=\"?http")
        return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])

    def test_a_new_leak_is_red_until_it_is_accepted(self):
        leaks = f"# what runs\nmain </script>: {subject('driver_leak_one')}\nclean: {subject('free_null')}\n"
        first = self.night(leaks, "--build", "touch built")
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertTrue((self.folder / "built").exists())
        self.assertIn("culprit-nightly accept --history history", first.stdout)
        main, clean = self.nights()[0]["commands"]
        self.assertEqual((main["leaked_bytes"], main["new"], main["verdict"], main["gate"]), (11001, 1, "red", 1))
        self.assertEqual([leak["state"] for leak in main["leaks"]], ["new"])
        self.assertEqual((clean["leaks"], clean["verdict"], clean["gate"]), ([], "green", 0))
        # The night before had it too: that makes it no better.
        for _ in range(2):
            self.assertEqual(self.night(None).returncode, 1)
            self.assertEqual(self.last()["new"], 1)
        self.assertEqual(self.accept().returncode, 0)
        green = self.night(None)
        self.assertEqual(green.returncode, 0, green.stdout)
        self.assertIn("GREEN", green.stdout)
        self.assertEqual([leak["state"] for leak in self.last()["leaks"]], ["known"])
        # The accepted leaks are a baseline of culprit.
        accepted = list((self.folder / "history" / "accepted").glob("main*.json"))
        self.assertEqual(json.loads(accepted[0].read_text())["schema"], "culprit.baseline/1")

        worse = self.night(f"main </script>: {subject('driver_leak_one')}; {subject('leak_one')} >/dev/null; true\n")
        self.assertEqual(worse.returncode, 1, worse.stdout)
        self.assertEqual((self.last()["new"], len(self.last()["leaks"])), (1, 2))
        new = next(leak["id"] for leak in self.last()["leaks"] if leak["state"] == "new")
        data = self.page()
        self.assertEqual(data["missing"], ["clean"])
        self.assertEqual([night["red"] for night in data["nights"]], [True, True, True, False, True])
        shown = data["commands"][0]
        self.assertEqual((shown["name"], shown["reasons"]), ("main </script>", ["1 new"]))
        self.assertEqual({leak["id"]: leak["since"] for leak in shown["leaks"]}[new], self.nights()[-1]["date"])
        # Only that one is accepted; the other stays accepted.
        self.assertEqual(self.accept("--only", "main </script>", "--leak", new).returncode, 0)
        self.assertEqual(self.night(None).returncode, 0)

    def test_growth_is_red_until_it_is_accepted(self):
        self.night(f"main: {subject('driver_leak_one')}\n")
        self.accept()
        twice = self.night(f"main: {subject('driver_leak_one')}; {subject('driver_leak_one')}\n")
        self.assertEqual(twice.returncode, 1, twice.stdout)
        self.assertEqual(self.last()["reasons"], ["1 grown"])
        self.assertEqual(self.page()["commands"][0]["leaks"][0]["was"], 11001)
        self.accept()
        self.assertEqual(self.night(None).returncode, 0)

    def test_each_night_keeps_its_page_and_dumps(self):
        self.night(f"one: {subject('driver_leak_one')}\n")
        self.night(None)
        for night in self.nights():
            result = night["commands"][0]
            page = (self.folder / "history" / result["page"]).read_text(encoding="utf-8")
            self.assertIn("leak_here", page)
            self.assertEqual(len(result["dumps"]), 1)
            dump = self.folder / "history" / result["dumps"][0]
            report = subprocess.run([str(self.BIN / "culprit"), "report", str(dump)], env=ENVIRONMENT,
                                    capture_output=True, text=True, timeout=100, check=False)
            self.assertIn("10.7 KiB", report.stdout)
        pages = [night["page"] for night in self.page()["commands"][0]["nights"]]
        self.assertEqual(pages, [night["commands"][0]["page"] for night in self.nights()])
        # What is removed is no longer linked.
        self.night(None, "--keep", "1")
        self.assertEqual([bool(night["page"]) for night in self.page()["commands"][0]["nights"]], [False, False, True])
        self.assertEqual(len(list((self.folder / "history" / "nights").iterdir())), 1)
        self.assertEqual(len(self.nights()), 3)

    def test_a_history_may_have_any_name(self):
        done = self.night(f"a/../%n <x>: {subject('driver_leak_one')}\n", "--history", "50%n of it")
        self.assertEqual(done.returncode, 1, done.stderr)
        night = json.loads(next((self.folder / "50%n of it").glob("*.json")).read_text())
        result = night["commands"][0]
        for path in [result["page"], *result["dumps"]]:
            self.assertTrue((self.folder / "50%n of it" / path).is_file(), path)
            self.assertTrue(path.startswith("nights/"))

    def test_a_command_that_fails_every_night_is_never_green(self):
        self.night(f"fails: {subject('driver_leak_one')}; echo the reason; exit 3\n"
                   f"crashes: {subject('free_null')}; kill -SEGV $$\n")
        self.accept()
        for _ in range(2):
            done = self.night(None)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("fails: RED: leaked 10.7 KiB in 1 group; exit status 3\n", done.stdout)
            self.assertIn("crashes: RED: leaked 0 B in 0 groups; killed by SIGSEGV\n", done.stdout)
            self.assertEqual((self.last(0)["exit_code"], self.last(0)["verdict"]), (3, "red"))
            self.assertIn("the reason", self.last(0)["output"])
        self.assertEqual([command["reasons"] for command in self.page()["commands"]],
                         [["exit status 3"], ["killed by SIGSEGV"]])

    def test_leaks_that_were_accepted_stay_so_when_the_command_fails(self):
        self.night(f"main: {subject('driver_leak_one')}\n")
        self.accept()
        self.night(f"main: {subject('free_null')}; exit 1\n")
        self.accept()
        self.assertEqual(self.night(f"main: {subject('driver_leak_one')}\n").returncode, 0)

    def test_nothing_recorded_is_not_green(self):
        done = self.night("none: true\n")
        self.assertEqual(done.returncode, 1, done.stdout)
        result = self.last()
        self.assertTrue(result["unknown"])
        self.assertRegex(result["reasons"][0], r"nothing was recorded \(no CUDA call was seen")
        refused = self.accept()
        self.assertIn("nothing is accepted", refused.stdout)

    def test_a_gate_that_does_not_know_is_red_with_its_reason(self):
        # A culprit that runs as ever, and whose report ends with another status than 0 and 1.
        fake = self.folder / "fake-culprit"
        culprit = self.BIN / "culprit"
        for status, words in ((4, "not known: not everything was recorded (the disk was full)"),
                              (3, "its report could not be made (the disk was full)"),
                              (77, "the report: exit status 77 (the disk was full)")):
            fake.write_text(f"#!/bin/sh\n'{culprit}' \"$@\" || exit\n[ \"$1\" = run ] && exit 0\n"
                            f"echo 'culprit: the disk was full' >&2\nexit {status}\n", encoding="utf-8")
            fake.chmod(0o755)
            done = self.night(f"clean: {subject('free_null')}\n", "--culprit", str(fake))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual((self.last()["gate"], self.last()["reasons"]), (status, [words]))
            self.assertIn(words, done.stdout)

    def test_a_command_that_hangs_is_killed_and_still_reported(self):
        done = self.night(f"slow: {subject('driver_leak_one')}; sleep 1000\n", "--timeout", "2")
        self.assertEqual(done.returncode, 1, done.stderr)
        command = self.last()
        self.assertEqual(command["exit_code"], "timeout")
        self.assertEqual(command["reasons"], ["killed after 2 s", "1 new"])
        self.assertIn("leak_here", (self.folder / "history" / command["page"]).read_text(encoding="utf-8"))

    def test_nights_of_an_older_version_are_shown(self):
        history = self.folder / "history"
        history.mkdir()
        known = {"id": "c094f60f7b52ea78", "bytes": 1, "count": 1, "kind": "device", "cause": "never-freed",
                 "api": "cuMemAlloc", "where": "leak_here", "comment": ""}
        old = {"name": "main", "command": "x", "exit_code": 3, "seconds": 1, "output": [], "leaks": [known], "new": 0,
               "grown": 0, "gone": 0, "processes": 1, "leaked_bytes": 1, "leaked_allocations": 1, "cached_bytes": 0,
               "errors": 0}
        for day, result in (("01", old), ("02", {**old, "exit_code": 0})):
            (history / f"2026-01-{day}.json").write_text(json.dumps(
                {"schema": "culprit.night/1", "date": f"2026-01-{day}T02:00:00.000Z", "host": "a", "revision": "",
                 "commands": [result]}), encoding="utf-8")
        self.night(f"main: {subject('driver_leak_one')}\n")
        shown = self.page()["commands"][0]
        self.assertEqual([night["red"] for night in shown["nights"]], [True, False, True])
        self.assertIn("exit status 3", shown["nights"][0]["words"])
        self.assertEqual(shown["leaks"][0]["since"], "2026-01-01T02:00:00.000Z")

    def test_what_cannot_be_used_is_named(self):
        self.assertEqual(self.night("x: true\n", "--timeout", "0").returncode, 2)
        missing = self.night("x: true\n", "--culprit", "/nonexistent/culprit")
        self.assertEqual(missing.returncode, 3)
        self.assertIn("/nonexistent/culprit", missing.stderr)
        for bad, part in (("no colon here\n", "commands:1"), ("", "no command"), ("a: true\na: true\n", "commands:2")):
            done = self.night(bad)
            self.assertEqual(done.returncode, 3)
            self.assertIn(part, done.stderr)
        failed = self.night("x: true\n", "--build", "false")
        self.assertEqual(failed.returncode, 3)
        self.assertIn("the build failed", failed.stderr)
        self.assertEqual(self.accept().returncode, 3)  # there is no night yet
        self.night("x: true\n")
        for options in (("--only", "y"), ("--leak", "0123456789abcdef")):
            unknown = self.accept(*options)
            self.assertEqual(unknown.returncode, 3)
            self.assertIn(options[1], unknown.stderr)
        # FIFOs do not block, whether they are named or lie in the history.
        os.mkfifo(self.folder / "fifo")
        self.assertEqual(self.night(None, "--commands", "fifo").returncode, 3)
        os.mkfifo(self.folder / "history" / "index.html.new")
        os.mkfifo(self.folder / "history" / "0.json")
        blocked = self.night(None)
        self.assertEqual(blocked.returncode, 3)
        self.assertIn("is not a regular file", blocked.stderr)
        (self.folder / "history" / "0.json").unlink()
        (self.folder / "history" / "0.json").write_text("{", encoding="utf-8")
        damaged = self.night("x: true\n")
        self.assertEqual(damaged.returncode, 3)
        self.assertIn("0.json", damaged.stderr)

    def test_the_script_of_the_sources_runs_the_same(self):
        if BUILD.resolve() != (SOURCE / "build").resolve():
            self.skipTest("this is another build")
        done = self.night(f"clean: {subject('free_null')}\n", program=SOURCE / "scripts" / "nightly.sh")
        self.assertEqual(done.returncode, 0, done.stderr)


class InstalledNightly(Nightly):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="culprit-installed-")
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", folder.name + "/first"], timeout=100, check=True,
                       stdout=subprocess.DEVNULL)
        # It runs where it is moved, and through a link.
        shutil.move(folder.name + "/first", folder.name + "/moved")
        cls.BIN = pathlib.Path(folder.name, "moved", "bin")
        link = pathlib.Path(folder.name, "culprit-nightly")
        link.symlink_to(cls.BIN / "culprit-nightly")
        cls.link = link

    def test_a_link_runs_it(self):
        done = self.night(f"clean: {subject('free_null')}\n", program=self.link)
        self.assertEqual(done.returncode, 0, done.stderr)

    test_the_script_of_the_sources_runs_the_same = None


def steps_of(text):
    """The steps of a workflow or an action of GitHub: dictionaries. Reads the part of YAML that these files have."""
    found = []
    lines = text[re.search(r"^ +steps:\n", text, re.MULTILINE).end():].splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    target = block = None
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if block is not None and (not line.strip() or depth > block):
            found[-1]["run"] += line[block + 2:] + "\n"
            continue
        block = None
        if line.lstrip().startswith("#"):
            continue
        if line[indent:indent + 2] == "- ":
            found.append({})
            depth = indent + 2
        key, _, value = line[depth:].partition(":")
        if depth == indent + 2:
            target = found[-1]
        value = value.strip()
        if value == "|":
            found[-1]["run"] = ""
            block = depth
        elif value:
            target[key] = value
        else:
            target = found[-1].setdefault(key, {})
    return found


class Runner:
    """Runs the steps of a job as GitHub's runner does, with the actions that the workflow uses."""

    def __init__(self, folder, path):
        self.folder = folder
        self.path = path
        self.temp = folder.parent / "temp"
        self.cache = folder.parent / "cache"
        self.output = ""
        self.uploaded = {}
        self.summary = ""

    def value(self, text, names):
        """Replaces the expressions of a text."""
        return re.sub(r"\$\{\{ ([^}]+) \}\}", lambda found: names.get(found[1], ""), text)

    def holds(self, condition, failed, names):
        clauses = [clause for clause in condition.split(" && ") if clause]
        if "always()" in clauses:
            clauses.remove("always()")
        elif failed:
            return False
        for clause in clauses:
            left, operator, right = re.fullmatch(r"(\S+) (==|!=) '(.*)'", clause).groups()
            files = re.fullmatch(r"hashFiles\('(.*)'\)", left)
            value = names.get(left, "") if not files else "sum" if (self.folder / files[1]).exists() else ""
            if (value == right) != (operator == "=="):
                return False
        return True

    def act(self, action, inputs, names, prefix):
        """Does what an action of others does; returns whether it succeeded."""
        name = action.split("@")[0]
        if name == "./.culprit/examples/ci":
            text = (self.folder / ".culprit/examples/ci/action.yml").read_text(encoding="utf-8")
            given = dict(re.findall(r'^  ([\w-]+):\n(?:    .*\n)*?    default: "?([^"\n]*)"?\n', text, re.MULTILINE))
            own = {f"inputs.{key}": value for key, value in {**given, **inputs}.items()}
            own["github.action_path"] = str(self.folder / ".culprit/examples/ci")
            own["runner.temp"] = str(self.temp)
            return self.run(steps_of(text), own)
        if name.startswith("actions/cache/"):
            kept = self.cache / inputs["key"]
            if name.endswith("save"):
                shutil.copytree(inputs["path"], kept)
            elif kept.exists():
                shutil.copytree(kept, inputs["path"])
                names[prefix + "cache-hit"] = "true"
        elif name == "github/codeql-action/upload-sarif":
            self.uploaded["sarif"] = json.loads((self.folder / inputs["sarif_file"]).read_text(encoding="utf-8"))
        elif name == "actions/upload-artifact":
            self.uploaded["files"] = sorted(path.name for path in (self.folder / inputs["path"]).glob("*"))
        else:
            assert name == "actions/checkout", name
        return True

    def run(self, steps, names=None):
        """Whether all steps succeeded."""
        names = dict(names or {})
        failed = False
        for step in steps:
            if not self.holds(step.get("if", ""), failed, names):
                continue
            prefix = f"steps.{step.get('id', 'none')}.outputs."
            if "uses" in step:
                inputs = {key: self.value(text, names) for key, text in step.get("with", {}).items()}
                good = self.act(step["uses"], inputs, names, prefix)
            else:
                good = self.shell(step, names, prefix)
            failed = failed or not good
        return not failed

    def shell(self, step, names, prefix):
        files = {key: self.folder.parent / key.lower() for key in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        for file in files.values():
            file.write_text("", encoding="utf-8")
        more = {key: self.value(text, names) for key, text in step.get("env", {}).items()}
        more.update({key: str(path) for key, path in files.items()})
        done = shell(step["run"], self.folder, PATH=self.path, **more)
        self.output += done.stdout + done.stderr
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
        for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            names[prefix + key] = value
        return done.returncode == 0


def gitlab_script(text):
    """The lines of the job's script."""
    part = text[text.index("  script:\n"):text.index("  artifacts:\n")]
    return "\n".join(re.findall(r"^    - (.+)$", part, re.MULTILINE))


class Workflows(unittest.TestCase):
    """A project with tests, in a folder of its own; culprit's sources are a stand-in whose package.sh packs BUILD."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-ci-")
        self.addCleanup(folder.cleanup)
        self.outside = pathlib.Path(folder.name)
        self.folder = self.outside / "project"
        self.folder.mkdir()
        tools = self.outside / "tools"
        tools.mkdir()
        self.gpu = tools / "nvidia-smi"
        self.gpu.write_text("#!/bin/sh\necho 'GPU 0: of the test'\n", encoding="utf-8")
        self.gpu.chmod(0o755)
        # Without the nvidia-smi of a machine that has one.
        others = [one for one in os.environ["PATH"].split(":") if not os.path.exists(os.path.join(one, "nvidia-smi"))]
        self.path = ":".join([str(tools), *others])

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="culprit-package-")
        cls.addClassCleanup(folder.cleanup)
        subprocess.run(["cmake", "--install", str(BUILD), "--prefix", folder.name + "/culprit-0"], timeout=100,
                       check=True, stdout=subprocess.DEVNULL)
        cls.package = pathlib.Path(folder.name, "culprit-0.tar.gz")
        subprocess.run(["tar", "-C", folder.name, "-czf", cls.package, "culprit-0"], timeout=100, check=True)

    def sources(self, name):
        """The stand-in for culprit's sources."""
        root = self.folder / name
        for folder in ("interpose", "report", "scripts", "examples/ci"):
            (root / folder).mkdir(parents=True)
        (root / "CMakeLists.txt").write_text("", encoding="utf-8")
        shutil.copy(SOURCE / "examples/ci/action.yml", root / "examples/ci")
        script = root / "scripts/package.sh"
        script.write_text(f"#!/bin/sh\ncd \"$(dirname \"$0\")/..\" && mkdir -p build/package && "
                          f"echo built >>'{self.outside}/builds' && cp '{self.package}' build/package/\n",
                          encoding="utf-8")
        script.chmod(0o755)

    def builds(self):
        """How often culprit was built."""
        builds = self.outside / "builds"
        return len(builds.read_text(encoding="utf-8").splitlines()) if builds.exists() else 0

    def project(self, *tests):
        """A project whose tests are programs that are there already."""
        shutil.rmtree(self.folder / "build", ignore_errors=True)
        lines = ["cmake_minimum_required(VERSION 3.20)", "project(demo NONE)", "enable_testing()"]
        lines += [f"add_test(NAME test{number} COMMAND {test})" for number, test in enumerate(tests)]
        (self.folder / "CMakeLists.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def accept(self):
        made = shell("culprit-0/bin/culprit report project/culprit-report/*.dump --write-baseline project/leaks.json",
                     self.outside)
        self.assertEqual(made.returncode, 0, made.stderr)

    def unpack(self):
        subprocess.run(["tar", "-C", self.outside, "-xzf", self.package], timeout=100, check=True)

    def test_github_actions(self):
        steps = steps_of((SOURCE / "examples/ci/github-actions.yml").read_text(encoding="utf-8"))
        self.unpack()

        def job():
            # Each job has a folder of its own.
            for name in (".culprit", "../temp", "culprit-report"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            self.sources(".culprit")
            runner = Runner(self.folder, self.path)
            return runner.run(steps), runner

        self.project(subject("driver_leak_one"), subject("free_null"))
        good, runner = job()
        self.assertFalse(good)
        self.assertIn("there is no leaks.json yet", runner.output)
        self.assertRegex(runner.output, r"\n::error file=[^\n]*driver_leak_one.cpp,line=\d+,title=culprit%3A 10.7 KiB")
        self.assertIn("driver_leak_one", runner.summary)
        self.assertTrue(any(run["results"] for run in runner.uploaded["sarif"]["runs"]))
        self.accept()
        good, runner = job()
        self.assertTrue(good, runner.output)
        self.assertNotIn("::error", runner.output)

        # A new leak, and tests that fail: there are reports all the same.
        self.project(subject("driver_leak_one"), subject("device_reset"), "false")
        good, runner = job()
        self.assertFalse(good)
        self.assertIn("::notice file=", runner.output)  # the known one
        self.assertIn("::error file=", runner.output)
        self.assertIn("device_reset", runner.summary)
        self.assertTrue({"leaks.html", "leaks.sarif", "leaks.xml", "leaks.md"} <= set(runner.uploaded["files"]))
        self.assertIn("sarif", runner.uploaded)
        self.project("false")
        good, runner = job()
        self.assertFalse(good)
        self.assertIn("nothing was recorded", runner.output)
        # culprit was built by the first job only.
        self.assertEqual(self.builds(), 1)

        # Without a GPU nothing fails, and a notice says that nothing was checked.
        self.gpu.unlink()
        self.project(subject("driver_leak_one"))
        good, runner = job()
        self.assertTrue(good, runner.output)
        self.assertIn("::notice title=culprit::skipped", runner.output)
        self.assertIn("nothing was checked", runner.summary)
        self.assertEqual(runner.uploaded, {"files": []})

    def test_action(self):
        def act(**inputs):
            for name in (".culprit", "../temp"):
                shutil.rmtree(self.folder / name, ignore_errors=True)
            self.sources(".culprit")
            runner = Runner(self.folder, self.path)
            return runner.act("./.culprit/examples/ci", inputs, {}, ""), runner

        self.assertFalse(act(command=subject("driver_leak_one"))[0])
        self.assertTrue(act(command=subject("free_null"))[0])
        self.assertTrue(act(command=subject("driver_leak_one"), **{"fail-on": "none"})[0])
        self.assertFalse(act(command=subject("free_null") + "; exit 3")[0])
        self.assertEqual(self.builds(), 1)
        # Another version of culprit is built again; a package is not built.
        shutil.rmtree(self.outside / "cache")
        self.assertTrue(act(command=subject("free_null"), package=str(self.package))[0])
        self.assertEqual(self.builds(), 1)
        self.assertTrue(act(command=subject("free_null"))[0])
        self.assertEqual(self.builds(), 2)
        # The command is not a part of the script: what it has in it is run by its own shell.
        self.assertTrue(act(command=f"a=\"x 'y\"; test \"$a\" = \"x 'y\" && {subject('free_null')}")[0])
        self.gpu.unlink()
        self.assertFalse(act(command=subject("free_null"), gpu="require")[0])
        good, runner = act(command=subject("driver_leak_one"), gpu="ignore")
        self.assertFalse(good)
        self.assertIn("::error file=", runner.output)

    def test_gitlab_ci(self):
        text = (SOURCE / "examples/ci/gitlab-ci.yml").read_text(encoding="utf-8")
        script = gitlab_script(text)
        self.unpack()
        self.sources("../sources")
        repository = self.outside / "sources"
        git = "git -c user.name=a -c user.email=a"
        made = shell(f"git init -q && git add -A && {git} commit -qm a && git tag v1", repository)
        self.assertEqual(made.returncode, 0, made.stderr)

        def job():
            shutil.rmtree(self.folder / ".culprit-sources", ignore_errors=True)
            return shell(script, self.folder, PATH=self.path, CULPRIT_REPOSITORY=f"file://{repository}",
                         CULPRIT_VERSION="v1")

        reports = self.folder / "culprit-report"
        self.project(subject("driver_leak_one"), subject("free_null"))
        first = job()
        self.assertEqual(first.returncode, 1, first.stderr)
        self.assertIn("NEW", first.stdout)
        self.accept()
        self.assertEqual(job().returncode, 0)
        self.project(subject("driver_leak_one"), subject("device_reset"))
        self.assertEqual(job().returncode, 1)
        self.project(subject("driver_leak_one"), "false")
        failed = job()
        self.assertNotIn(failed.returncode, (0, 1), failed.stdout)  # the status of ctest
        for name in ("leaks.html", "leaks.sarif", "leaks.xml", "leaks.md"):
            self.assertIn("driver_leak_one", (reports / name).read_text(encoding="utf-8"))
        self.assertEqual(len(list(reports.glob("*.dump"))), 1)
        # The project has culprit in its cache.
        self.assertEqual(self.builds(), 1)
        self.gpu.unlink()
        self.assertEqual(job().returncode, 77)
        self.assertIn("exit_codes: 77", text)
        for condition in ("- if: $GPU_RUNNER", "when: always"):
            self.assertIn(condition, text)

    def test_files_are_valid(self):
        readers = SOURCE / "build" / "deps" / "format-readers"
        if not (readers / "check_jsonschema").exists():
            self.skipTest("no check-jsonschema: scripts/format-readers.sh brings it")
        for schema, name in (("vendor.github-workflows", "github-actions.yml"), ("vendor.github-actions", "action.yml"),
                             ("vendor.gitlab-ci", "gitlab-ci.yml")):
            done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema,
                                   str(SOURCE / "examples/ci" / name)], capture_output=True, text=True, timeout=100,
                                  env={**os.environ, "PYTHONPATH": str(readers)}, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
