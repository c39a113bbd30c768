"""Runs the long tests of tests/guest (storms): soak.py BUILD [--seconds N] [--only TEXT]

BUILD is the built tree, or an unpacked package of scripts/package.sh --with-tests. Each storm lasts N seconds (600 by
default). With --only, it runs the storms whose names contain TEXT. Prints one row for each; exit code 1 when one
failed.
"""

import argparse
import itertools
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import reports
import soak_attach

KILLS = 500  # at least, for each number of threads, in the long form


class Failed(Exception):
    """A storm whose program did not end as it should, or whose dump and log differ."""


def demand(condition, text):
    if not condition:
        raise Failed(text)


class Soak:
    def __init__(self, build, seconds):
        self.build = build
        self.seconds = seconds
        self.long = seconds >= 600
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="culprit-soak."))

    def environment(self, preload=True, **more):
        environment = dict(os.environ, CULPRIT_OUT=str(self.folder / "culprit.%n.%p.dump"), CULPRIT_QUIET="1", **more)
        environment["LD_LIBRARY_PATH"] = f"{self.build}/guest/driver:{self.build}/simcuda"
        if preload:
            environment["LD_PRELOAD"] = str(self.build / "lib/libculprit.so")
        return environment

    def program(self, name):
        return str(self.build / "guest/programs" / name)

    def report(self, dump):
        try:
            return reports.read_report(self.build / "bin/culprit", dump)
        except RuntimeError as error:
            raise Failed(str(error)) from None

    def only_dump(self):
        dumps = sorted(self.folder.glob("*.dump*"))
        demand(len(dumps) == 1, f"{len(dumps)} dumps")
        return dumps[0]

    def clear(self):
        for path in self.folder.iterdir():
            path.unlink()

    def kill_once(self, threads):
        """Kills the program at a random moment; its dump and its own log must agree."""
        self.clear()
        with subprocess.Popen([self.program("logged_calls"), str(self.folder), str(threads)], stdout=subprocess.PIPE,
                              text=True, stdin=subprocess.DEVNULL, env=self.environment()) as process:
            demand(process.stdout.readline() == "ready\n", "the program did not start")
            time.sleep(random.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
        live, open_calls = set(), []
        for path in self.folder.glob("log.*"):
            begun = None
            for what, size in struct.iter_unpack("<4sI", path.read_bytes()):
                what = what[:1]
                if what in b"af":
                    begun = (what, size)
                else:
                    begun = None
                    (live.add if what == b"A" else live.remove)(size)
            if begun is not None:
                open_calls.append(begun)
        report = self.report(self.only_dump())
        demand(report["summary"]["dropped"] == 0, f"{report['summary']['dropped']} not recorded")
        count = sum(group["count"] for group in report["leaks"])
        total = sum(group["bytes"] for group in report["leaks"])
        # Each call that the kill interrupted may be in the dump or not.
        for taken in itertools.product((False, True), repeat=len(open_calls)):
            done = [call for call, is_in in zip(open_calls, taken) if is_in]
            made = [size for what, size in done if what == b"a"]
            ended = [size for what, size in done if what == b"f"]
            if count == len(live) + len(made) - len(ended) and total == sum(live) + sum(made) - sum(ended):
                return
        raise Failed(f"{threads} threads: the log has {len(live)} live ({sum(live)} bytes) and "
                     f"{len(open_calls)} open calls, "
                     f"the dump {count} ({total} bytes)")

    def kills(self, threads):
        end = time.monotonic() + self.seconds
        done = 0
        while time.monotonic() < end or done < (KILLS if self.long else 5):
            self.kill_once(threads)
            done += 1
        return f"{done} kills, each dump as the program's log"

    def storm(self, name, *arguments, leaves=False):
        """Runs a guest for the whole time under the library; it must end as it does alone."""
        command = [self.program(name), *arguments]
        alone = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120,
                               check=False, env=self.environment(preload=False, GUEST_SECONDS="0.2"))
        self.clear()
        figures = self.folder / "figures"
        environment = self.environment(GUEST_SECONDS=str(self.seconds), GUEST_FIGURES=str(figures))
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, env=environment, start_new_session=True) as process:
            try:
                out, err = process.communicate(timeout=self.seconds * 1.5 + 40)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                raise Failed("it hangs") from None
        ours = "".join(line for line in err.splitlines(True) if not line.startswith("culprit: "))
        demand((process.returncode, out, ours) == (alone.returncode, alone.stdout, alone.stderr),
               f"alone: {alone.returncode} {alone.stdout}{alone.stderr}; "
               f"under the library: {process.returncode} {out}{ours}")
        numbers = dict(line.split() for line in figures.read_text().splitlines())
        if leaves:
            report = self.report(self.only_dump())
            count = sum(group["count"] for group in report["leaks"])
            complete = report["summary"].get("complete", report["summary"]["dropped"] == 0)
            demand(count == int(numbers["live"]) or not complete,
                   f"{numbers['live']} live, {count} reported, and the report is said to be complete")
        return ", ".join(f"{value} {key}" for key, value in numbers.items())

    def drivers(self):
        """Threads open, use and close three copies of a driver in any order."""
        self.clear()
        with tempfile.TemporaryDirectory(prefix="culprit-soak-drivers.") as folder:
            paths = [pathlib.Path(folder, str(number), "libcuda.so.1") for number in range(3)]
            for path in paths:
                path.parent.mkdir()
                shutil.copy(self.build / "guest/closable/libcuda.so.1", path)
            return self.storm("drivers", "storm", *map(str, paths), leaves=True)

    def endless_stacks(self):
        """As many stacks as the time allows; memory and dump stay as they were after the first twentieth."""
        self.clear()
        count = max(int(self.seconds * 170000), 100000)  # 100 million in ten minutes
        figures = self.folder / "figures"
        subprocess.run([self.program("endless"), "stacks", str(count)], stdin=subprocess.DEVNULL,
                       stdout=subprocess.DEVNULL, check=True,
                       timeout=self.seconds * 20 + 120, env=self.environment(GUEST_FIGURES=str(figures)))
        grown = int(figures.read_text().split()[1]) >> 20
        size = self.only_dump().stat().st_blocks * 512 >> 20
        demand(grown < 32 and size < 48, f"{count} stacks: {grown} MiB of memory more, {size} MiB of dump")
        return f"{count} stacks, {grown} MiB of memory more, {size} MiB of dump"

    def attach_and_detach(self):
        self.clear()
        rounds = 0
        end = time.monotonic() + self.seconds
        with subprocess.Popen([self.program("attached")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                              env=self.environment(preload=False)) as process:
            try:
                demand(process.stdout.readline() == "ready\n", "the program did not start")
                dump = str(self.folder / "attached.%p.dump")
                seen = []
                while rounds < 300 if self.long else time.monotonic() < end or rounds < 6:
                    for command in (["attach", str(process.pid), "--out", dump, "--timeout", "60s"],
                                    ["detach", str(process.pid), "--timeout", "60s"]):
                        done = subprocess.run([self.build / "bin/culprit", *command], capture_output=True, text=True,
                                              stdin=subprocess.DEVNULL, timeout=120, check=False)
                        demand(done.returncode == 0,
                               f"round {rounds}: {command[0]} ended with {done.returncode}: {done.stderr}")
                    for path in self.folder.glob("attached.*"):
                        path.unlink()
                    rounds += 1
                    seen.append(soak_attach.figures(process.pid))
                growth = soak_attach.check_growth(seen, Failed)
                out, _ = process.communicate(timeout=60)
            except BaseException:
                process.kill()
                raise
        demand((process.returncode, out) == (7, "all threads ended\n"),
               f"the program ended with {process.returncode}: {out}")
        return f"{rounds} rounds, {growth}"

    def run(self, only):
        storms = [
            ("kills at random points, 1 thread", lambda: self.kills(1)),
            ("kills at random points, 8 threads", lambda: self.kills(8)),
            ("fork storm", lambda: self.storm("fork_storm", "cuda")),
            ("fork in a handler", lambda: self.storm("fork_in_handler", "fork")),
            ("handlers at 20 kHz", lambda: self.storm("signal_storm")),
            ("jumps out of calls", lambda: self.storm("jump_out", "3", leaves=True)),
            ("switched user threads", lambda: self.storm("user_threads", "24", leaves=True)),
            ("user threads that jump", lambda: self.storm("user_threads", "32", "jump", leaves=True)),
            ("asynchronous cancellation", lambda: self.storm("cancel_async", leaves=True)),
            ("threads by the thousand", lambda: self.storm("thread_crowd", "storm", "1200" if self.long else "300",
                                                           leaves=True)),
            ("drivers opened and closed", self.drivers),
            ("attach and detach", self.attach_and_detach),
            ("attach in random situations", lambda: soak_attach.AttachStorm(self, Failed).run()),
            ("endless stacks", self.endless_stacks),
        ]
        storms = [(name, storm) for name, storm in storms if only in name]
        if not storms:
            sys.exit(f"soak.py: no storm's name contains {only!r}")
        failed = 0
        for name, storm in storms:
            started = time.monotonic()
            try:
                outcome, text = "PASS", storm()
            except (Failed, subprocess.SubprocessError, OSError, KeyError) as error:
                outcome, text = "FAIL", str(error).strip().replace("\n", " | ")
                failed += 1
            print(f"{outcome}  {name:36}  {time.monotonic() - started:6.1f} s  {text}", flush=True)
        shutil.rmtree(self.folder)
        print(f"{len(storms) - failed} passed, {failed} failed")
        return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--only", metavar="TEXT", default="")
    arguments = parser.parse_args()
    sys.exit(Soak(arguments.build.resolve(), arguments.seconds).run(arguments.only))


if __name__ == "__main__":
    main()
