"""Runs the benchmark's programs under its sides: one after the other, or several in turns."""
import contextlib
import os
import re
import select
import subprocess
import threading
import time
from pathlib import Path

import machine
from rows import Failed, Missing

TURN = re.compile(r"^(\w+)=(-?[0-9.]+)$")


class Started:
    """A program that runs under a side, with a folder of its own."""

    def __init__(self, folder, side, command, prefix, environment, processors, in_turns):
        self.folder, self.side, self.command = folder, side, command
        folder.mkdir()
        # They stay open until the program has ended.
        self.out, self.err = (open(folder / name, "w+", encoding="utf-8")  # noqa: SIM115
                              for name in ("stdout", "stderr"))
        pin = None if processors is None else lambda: os.sched_setaffinity(0, processors)
        self.begin = time.perf_counter_ns()
        self.process = subprocess.Popen([*prefix, *command], env=environment,
                                        stdin=subprocess.PIPE if in_turns else subprocess.DEVNULL,
                                        stdout=subprocess.PIPE if in_turns else self.out, stderr=self.err, text=True,
                                        start_new_session=True,
                                        preexec_fn=pin)  # noqa: PLW1509 (no other thread is running)

    def turn(self):
        """Lets the program go on. Returns what it prints then as (name, value); None when it has ended."""
        try:
            os.write(self.process.stdin.fileno(),
                     b"\n")  # unbuffered, so that nothing remains in a buffer if the reader has gone
        except BrokenPipeError:
            return None
        for line in self.process.stdout:
            found = TURN.match(line)
            if found:
                return found[1], float(found[2])
        return None

    def end(self, timeout):
        """Waits for its end. Returns its values, see Runner.run(); the folder is empty then."""
        status, usage = wait(self.process, timeout)
        wall = time.perf_counter_ns() - self.begin
        texts = []
        for file in (self.out, self.err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()
        sizes = [path.stat().st_blocks * 512 for path in self.folder.glob("*.dump*")]
        for path in self.folder.iterdir():
            path.unlink()
        text, errors = texts
        if status is None:
            raise Failed(f"not finished after {timeout} s")
        if status != 0:
            raise Failed(f"exit code {status}: {(errors or text).strip()[-500:]}")
        if self.side in ("culprit", "nostacks") and not sizes and "bin/culprit" not in self.command[0]:
            raise Failed("left no dump: was the library loaded?")
        values = {name: float(number) for name, number in re.findall(TURN.pattern, text, re.MULTILINE)}
        instructions = re.search(r"Collected : (\d+)", errors)
        if instructions:
            values["instructions"] = float(instructions[1])
        cpu = (usage.ru_utime + usage.ru_stime) * 1e9
        return dict(values, wall_ns=wall, cpu_ns=cpu, peak_bytes=usage.ru_maxrss * 1024, dump_bytes=sum(sizes))


class Runner:
    """Runs programs under a side and gives their values."""

    def __init__(self, tree, work):
        self.tree, self.work = Path(tree), Path(work)
        self.cupti = machine.find_cupti()
        self.count = 0
        self.processors = None  # the processors that the next runs are pinned to

    def program(self, name):
        path = self.tree / "bench" / name
        if not path.is_file():
            raise Missing("not built")
        return str(path)

    def environment(self, side, simulated, folder):
        """The variables that make a program run under a side, and the words to put before its command. Dumps go to the
        folder."""
        variables, prefix = {}, []
        if simulated:
            variables["LD_LIBRARY_PATH"] = str(self.tree / "simcuda")
            if not (self.tree / "simcuda").is_dir():
                raise Missing("no simulated driver")
        if side in ("culprit", "nostacks"):
            variables.update(LD_PRELOAD=str(self.tree / "lib/libculprit.so"), CULPRIT_OUT=f"{folder}/%n.%p.dump",
                             CULPRIT_QUIET="1")
            if side == "nostacks":
                variables.update(CULPRIT_DEPTH="0", CULPRIT_LOG="off")
        elif side == "cupti":
            subscriber = self.tree / "bench/empty_subscriber.so"
            if not subscriber.is_file() or not self.cupti:
                raise Missing("not installed")
            variables.update(CUDA_INJECTION64_PATH=str(subscriber), BENCH_CUPTI=self.cupti)
        elif side == "sanitizer":
            prefix = [self.tool("compute-sanitizer"), "--tool", "memcheck", "--leak-check", "full",
                      "--report-api-errors", "no"]
        elif side == "nsys":
            prefix = [self.tool("nsys"), "profile", "--cuda-memory-usage=true", "--trace=cuda", "--sample=none",
                      "--cpuctxsw=none", "--force-overwrite=true", f"--output={folder}/nsys"]
        return variables, prefix

    @staticmethod
    def tool(name):
        path = machine.find_tool(name)
        if path is None:
            raise Missing("not installed")
        return path

    def start(self, command, side, simulated=False, in_turns=False, **variables):
        self.count += 1
        folder = self.work / f"run{self.count}"
        added, prefix = self.environment(side, simulated, folder)
        # Python's dictionaries lie alike in all sides.
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONHASHSEED="0", **added, **variables)
        return Started(folder, side, command, prefix, environment, self.processors, in_turns)

    def run(self, command, side, simulated=False, timeout=120, **variables):
        """Runs a command under a side. Returns its values: "name=number" lines of stdout, wall_ns, cpu_ns, peak_bytes,
        dump_bytes."""
        return self.start(command, side, simulated, **variables).end(timeout)

    @contextlib.contextmanager
    def beside(self, subject, *arguments, simulated=False):
        """Runs the block while that subject of tests/subjects uses the GPU: from its first line on, until its stdin
        ends."""
        path = self.tree / "subjects" / subject
        if not path.is_file():
            raise Missing("not built")
        variables, _ = self.environment("nothing", simulated, self.work)
        with subprocess.Popen([str(path), *arguments], env=dict(os.environ, **variables), stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
            if not process.stdout.readline():
                raise Failed(f"{subject} has no memory")
            yield  # the end of the block closes its stdin, and waits

    def in_turns(self, commands, timeout=300):
        """Runs {side: command} at the same time, but lets one after the other do something. Returns the values of every
        turn, {side: {name: [value, ...]}}, and {side: exception} of those that are missing or failed."""
        started, samples, problems = [], {}, {}
        for side, command in commands.items():
            try:
                started.append(self.start(command, side, in_turns=True))
                samples[side] = {}
            except Missing as missing:
                problems[side] = missing
        late = threading.Event()
        watch = threading.Timer(timeout, lambda: (late.set(), [kill(program.process.pid) for program in started]))
        watch.daemon = True
        watch.start()
        waiting = list(started)
        while waiting:
            for program in list(waiting):
                value = program.turn()
                if value is None:
                    waiting.remove(program)
                else:
                    samples[program.side].setdefault(value[0], []).append(value[1])
            waiting = waiting[1:] + waiting[:1]  # each of them comes first, and after each other one
        watch.cancel()
        for program in started:
            try:
                program.end(timeout)
            except Failed as failed:
                problems[program.side] = Failed(f"not finished after {timeout} s") if late.is_set() else failed
        return samples, problems


def kill(pid):
    """With all that it started."""
    for end in (os.kill, os.killpg):  # a process that was just made has no group of its own yet
        try:
            end(pid, 9)
        except ProcessLookupError:
            pass


def kill_children():
    """All that this process started: its programs have sessions of their own, which no terminal's Ctrl-C reaches. Read
    from /proc, because an interruption may come before a program is registered here."""
    for path in Path("/proc/self/task").glob("*/children"):
        for child in path.read_text(encoding="ascii").split():
            kill(int(child))


def wait(process, timeout):
    """(exit code, resource usage); (None, ...) after a timeout, when the whole process group was killed."""
    # Without polling, whose pauses would round the time of a start up.
    end = os.pidfd_open(process.pid)
    try:
        ended = bool(select.select([end], [], [], timeout)[0])
    finally:
        os.close(end)
    if not ended:
        kill(process.pid)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode if ended else None, usage
