#!/usr/bin/env python3
"""The workflows of examples/ci, run as their users run them: ci_test.py SOURCE BUILD

The steps of the workflows and of the action are run in a project of some tests, all but building culprit: BUILD is
packed.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject


def shell(line, folder, **more):
    return subprocess.run(["bash", "-e", "-o", "pipefail", "-c", line], cwd=folder, env={**ENVIRONMENT, **more},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)


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
        made = shell("culprit-0/bin/culprit report project/culprit-report --write-baseline project/leaks.json",
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
        # The command is not a part of the script: a shell of its own runs it.
        self.assertTrue(act(command=f"a=\"x 'y\"; test \"$a\" = \"x 'y\" && {subject('free_null')}")[0])
        # The lines of the command, with the options of a `run:` step: the first that fails ends it.
        lines = f"""a=1
          {subject('free_null')}
          test "$a" = 1"""
        self.assertTrue(act(command=lines)[0])
        self.assertFalse(act(command=f"false\n{subject('free_null')}")[0])
        self.assertFalse(act(command=f"false | cat\n{subject('free_null')}")[0])
        # Options reach both steps, those of `culprit run` alone the first one only.
        suppressions = self.folder / "known leaks"
        suppressions.write_text("leak:leak_here\n", encoding="utf-8")
        options = f"--depth 32 --suppressions '{suppressions}'\n--all"
        good, runner = act(command=subject("driver_leak_one"), options=options)
        self.assertTrue(good, runner.output)
        # A process that recorded nothing, and a program whose dump is a hidden file.
        unseen = f"{subject('free_null')}; n=$(printf %0250d 0); cp {subject('driver_leak_one')} $n; ./$n; rm $n"
        good, runner = act(command=unseen)
        self.assertFalse(good)
        self.assertIn("File name too long", runner.output)
        good, runner = act(command=f"cp {subject('driver_leak_one')} .hidden; ./.hidden", folder=".re%port")
        self.assertFalse(good)
        self.assertIn("::error file=", runner.output)
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
        for schema, name in (("vendor.github-workflows", "examples/ci/github-actions.yml"),
                             ("vendor.github-actions", "examples/ci/action.yml"),
                             ("vendor.gitlab-ci", "examples/ci/gitlab-ci.yml"),
                             ("vendor.github-workflows", ".github/workflows/release.yml")):
            done = subprocess.run([sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema,
                                   str(SOURCE / name)], capture_output=True, text=True, timeout=100,
                                  env={**os.environ, "PYTHONPATH": str(readers)}, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
