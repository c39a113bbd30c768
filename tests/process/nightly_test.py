#!/usr/bin/env python3
"""culprit-nightly of the build, and as it is installed: nightly_test.py SOURCE BUILD"""
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject


class Nightly(unittest.TestCase):
    """culprit-nightly of the build, and as it is installed."""
    # The command, and the culprit beside it.
    BIN = BUILD / "bin"

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-nightly-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

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
        leaks = f"# the commands\nmain </script>: {subject('driver_leak_one')}\nclean: {subject('free_null')}\n"
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

    def test_leaks_that_an_older_version_accepted_stay_accepted(self):
        command = f"main: {subject('driver_leak_one')}; {subject('leak_one')} >/dev/null; true\n"
        self.night(command)
        self.accept()
        accepted = self.folder / "history" / "accepted" / "main.json"
        baseline = json.loads(accepted.read_text())
        self.assertEqual(len(baseline["leaks"]), 2)
        ids = [leak["id"] for leak in baseline["leaks"]]
        night = next((self.folder / "history").glob("*.json"))
        old = json.loads(night.read_text())
        # Its ids follow another rule, and its entries do not name the rule.
        for leaks in (baseline["leaks"], old["commands"][0]["leaks"]):
            for leak in leaks:
                self.assertEqual(leak.pop("id_rule"), 2)
                leak["id"] = leak["id"][::-1]
        for number, leak in enumerate(baseline["leaks"]):
            leak["comment"] = f"comment {number}"
        accepted.write_text(json.dumps(baseline))
        night.write_text(json.dumps(old))
        done = self.night(None)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual([leak["id"] for leak in self.last()["leaks"]], ids)
        self.assertEqual({leak["since"] for leak in self.page()["commands"][0]["leaks"]}, {old["date"]})
        # One leak that grew is accepted beside the entries of the older version.
        grown = self.night(command.replace("; true", f"; {subject('driver_leak_one')}; true"))
        self.assertEqual(self.last()["reasons"], ["1 grown"], grown.stdout)
        self.assertEqual(self.page()["commands"][0]["leaks"][0]["was"], 11001)
        leak = next(one["id"] for one in self.last()["leaks"] if one["state"] == "grown")
        self.assertEqual(self.accept("--leak", leak).returncode, 0)
        self.assertEqual(self.night(None).returncode, 0, self.last())
        self.accept()
        self.assertEqual([(one["id"], one["id_rule"]) for one in json.loads(accepted.read_text())["leaks"]],
                         [(one, 2) for one in ids])
        self.assertEqual({one["comment"] for one in json.loads(accepted.read_text())["leaks"]},
                         {"comment 0", "comment 1"})

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
        # Removed pages are no longer linked.
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
            self.assertIn("fails: RED: exit status 3; leaked 10.7 KiB in 1 group\n", done.stdout)
            self.assertIn("crashes: RED: killed by SIGSEGV; leaked 0 B in 0 groups\n", done.stdout)
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

    def test_a_process_without_a_dump_is_not_green(self):
        # Its dump would have too long a name, so that only the run knows of it.
        done = self.night(f"main: {subject('free_null')}; cp {subject('driver_leak_one')} $(printf %0250d 0) && "
                          "./$(printf %0250d 0)\n")
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual((self.last()["gate"], self.last()["verdict"], self.last()["complete"]), (4, "red", False))
        self.assertIn("File name too long", self.last()["reasons"][0])
        refused = self.accept()
        self.assertEqual(refused.returncode, 1)
        self.assertIn("not everything was recorded", refused.stdout)
        self.assertFalse((self.folder / "history" / "accepted").exists())

    def test_the_night_that_ran_last_counts_whatever_the_clock_says(self):
        self.night(f"main: {subject('driver_leak_one')}\n")
        first = next((self.folder / "history").glob("*.json"))
        # The clock was a year ahead.
        night = json.loads(first.read_text())
        late = night["date"] = "2999" + night["date"][4:]
        (first.parent / (late.replace(":", "-") + ".json")).write_text(json.dumps(night))
        first.unlink()
        self.assertEqual(self.night(f"main: {subject('free_null')}\n").returncode, 0)
        self.assertEqual(self.page()["nights"][-1]["red"], False)
        self.assertIn("0 leaks accepted", self.accept().stdout)

    def test_a_history_file_without_a_member_is_named(self):
        self.night(f"main: {subject('driver_leak_one')}\n")
        path = next((self.folder / "history").glob("*.json"))
        whole = json.loads(path.read_text())
        damaged = []
        for name in ("date", "host", "revision", "commands"):
            damaged.append((name, {key: value for key, value in whole.items() if key != name}))
        for name in ("name", "leaks", "exit_code", "leaked_bytes"):
            command = {key: value for key, value in whole["commands"][0].items() if key != name}
            damaged.append((name, {**whole, "commands": [command]}))
        leak = {key: value for key, value in whole["commands"][0]["leaks"][0].items() if key != "id"}
        damaged.append(("id", {**whole, "commands": [{**whole["commands"][0], "leaks": [leak]}]}))
        damaged.append(("commands", {**whole, "commands": 7}))
        for name, night in damaged:
            path.write_text(json.dumps(night))
            for done in (self.night(None), self.accept()):
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(path.name, done.stderr)
                self.assertIn(f'"{name}"', done.stderr)
                self.assertNotIn("Traceback", done.stderr)
        path.write_text(json.dumps(whole))
        self.assertEqual(self.accept().returncode, 0)
        accepted = next((self.folder / "history" / "accepted").glob("*.json"))
        accepted.write_text('{"schema": "culprit.baseline/1", "leaks": [{"bytes": 1}]}')
        done = self.night(None)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(accepted.name, done.stderr)

    def test_children_that_left_the_session_end_at_the_time_limit(self):
        pids = self.folder / "pids"
        line = f"setsid sh -c 'echo $$ >>{pids}; exec sleep 300' & "
        line += f"(setsid setsid sh -c 'echo $$ >>{pids}; sleep 300' &) ; "
        self.night(f"slow: {subject('free_null')}; {line} sleep 300\n", "--timeout", "2")
        self.assertEqual(self.last()["exit_code"], "timeout")
        numbers = pids.read_text().split()
        self.assertEqual(len(numbers), 2)
        for number in numbers:
            stat = pathlib.Path("/proc", number, "stat")
            self.assertTrue(not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z", number)

    def test_nights_of_an_older_version_are_shown(self):
        history = self.folder / "history"
        history.mkdir()
        known = {"id": "c094f60f7b52ea78", "bytes": 1, "count": 1, "kind": "device", "cause": "never-freed",
                 "api": "cuMemAlloc", "where": "leak_here in driver_leak_one", "comment": ""}
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


if __name__ == "__main__":
    unittest.main()
