"""The storm of soak.py in which culprit attaches to programs in random situations that check themselves."""

import pathlib
import random
import signal
import subprocess
import time

# Programs of tests/subjects, with their arguments. Each prints "ready", runs until its standard input is closed, checks
# itself meanwhile, and ends with "fine". `steady`: it stays the same program with the same threads and children.
PROGRAMS = [
    ("attach_target", [], True),  # threads, a timer's signals, malloc, waiting calls, registers
    ("attach_target", ["computing"], True),
    ("attach_target", ["waiting"], True),
    ("attach_target.py", [], True),  # Python
    ("attach_fork", [], True),
    ("attach_forks", ["40"], False),
    ("attach_plugins", [], True),
    ("attach_exec", ["exec"], False),
    ("attach_exec", ["thread"], False),
    ("attach_exec", ["pthread"], False),
    ("attach_signals", ["sent"], True),
    ("attach_neighbours", ["short"], True),
    ("attach_libc", ["apart", "libm.so.6"], True),
]
TIMEOUT = 60
# The messages of failures that the situation explains. A program that is replaced between two commands knows of no
# attach; one that was left by a killed culprit may be attached.
EXPLAINED = ("is attached already", "is not attached", "(exec)", "has not loaded glibc", "has another culprit at work",
             "another attach or detach is at work", "came to a point where a call can be injected",
             "is loading a library", "was being loaded", "was killed", "interrupted;", "earlier attach")


class AttachStorm:
    """Attaches to and detaches from random programs until the time is over."""

    def __init__(self, soak, failure):
        self.soak = soak
        self.failure = failure
        self.counts = {"programs": 0, "attached": 0, "killed": 0, "at once": 0, "interrupted": 0, "refused": 0}

    def demand(self, condition, text):
        if not condition:
            raise self.failure(text)

    def culprit(self, command, pid, *more):
        limit = "20s" if self.soak.long else "4s"
        return subprocess.Popen([self.soak.build / "bin/culprit", command, str(pid), "--timeout", limit, *more],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.soak.environment(preload=False))

    def finish(self, process, name):
        text, _ = process.communicate(timeout=TIMEOUT)
        if process.returncode == 0:
            self.counts["attached"] += 1
        elif process.returncode > 0:
            self.counts["refused"] += 1
            self.demand(any(reason in " ".join(text.split()) for reason in EXPLAINED), f"{name}: {text}")
        return process.returncode

    def attach(self, pid):
        return self.culprit("attach", pid, "--out", str(self.soak.folder / "attached.%p.dump"))

    def attach_and_detach(self, pid, name):
        self.finish(self.attach(pid), name)
        time.sleep(random.uniform(0, 0.02))
        self.finish(self.culprit("detach", pid), name)

    def end_culprit(self, pid, name, number):
        process = self.attach(pid)
        time.sleep(random.uniform(0, 0.12))
        process.send_signal(number)
        self.finish(process, name)
        self.counts["killed" if number == signal.SIGKILL else "interrupted"] += 1
        self.finish(self.culprit("detach", pid), name)

    def attach_twice(self, pid, name):
        both = [self.attach(pid), self.attach(pid)]
        for process in both:
            self.finish(process, name)
        self.counts["at once"] += 1
        self.finish(self.culprit("detach", pid), name)

    def one_program(self, name, arguments, steady):
        path = self.soak.build / "subjects" / name
        command = [str(path), *arguments]
        if path.suffix == ".py":
            command = ["python3", str(path), str(self.soak.build / "simcuda/libcudart.so.13")]
        name = " ".join([name, *arguments])
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=self.soak.environment(preload=False)) as process:
            try:
                self.demand(process.stdout.readline() == "ready\n", f"{name} did not start")
                for _ in range(random.randint(1, 6)):
                    action = random.randrange(6)
                    if action < 2:
                        self.attach_and_detach(process.pid, name)
                    elif action < 4:
                        self.end_culprit(process.pid, name, signal.SIGKILL)
                    elif action == 4:
                        self.end_culprit(process.pid, name, random.choice([signal.SIGTERM, signal.SIGINT]))
                    else:
                        self.attach_twice(process.pid, name)
                    self.demand(process.poll() is None, f"{name} ended")
                if steady:  # it can be attached after all that
                    subprocess.run([self.soak.build / "bin/culprit", "detach", str(process.pid)], capture_output=True,
                                   check=False, timeout=TIMEOUT)
                    done = self.attach(process.pid)
                    text, _ = done.communicate(timeout=TIMEOUT)
                    self.demand(done.returncode == 0, f"{name}: cannot be attached at the end: {text}")
                out, err = process.communicate(timeout=TIMEOUT)
            except BaseException:
                process.kill()
                raise
        self.demand((process.returncode, out, err) == (0, "fine\n", ""),
                    f"{name} ended with {process.returncode}: {out}{err}")
        self.counts["programs"] += 1

    def run(self):
        end = time.monotonic() + self.soak.seconds
        programs = random.sample(PROGRAMS, len(PROGRAMS))
        while time.monotonic() < end or self.counts["programs"] < (len(PROGRAMS) if self.soak.long else 3):
            self.soak.clear()
            number = self.counts["programs"]
            self.one_program(*(programs[number] if number < len(programs) else random.choice(PROGRAMS)))
        return ", ".join(f"{count} {what}" for what, count in self.counts.items())


def figures(pid):
    """Memory in KiB, mappings, descriptors and threads of a process."""
    folder = pathlib.Path("/proc", str(pid))
    memory = next(int(line.split()[1]) for line in (folder / "status").read_text().splitlines()
                  if line.startswith("RssAnon:"))
    return (memory, len((folder / "maps").read_text().splitlines()), len(list((folder / "fd").iterdir())),
            len(list((folder / "task").iterdir())))


def check_growth(seen, failure):
    """`seen`: the figures after each round. Between the first and the last rounds only the program itself may grow.

    A detach leaves the recording's memory (a dump's 13 mappings, and 9 others) to the next attach when a thread is
    still in a CUDA call. So the least of some rounds counts.
    """
    some = max(len(seen) // 4, 5)
    before, after = ([min(figure) for figure in zip(*part)] for part in (seen[:some], seen[-some:]))
    memory, mappings, descriptors, threads = (late - early for early, late in zip(before, after))
    if memory > 2048 or mappings > 8 or descriptors > 0 or threads > 0:
        raise failure(f"grown by {memory} KiB, {mappings} mappings, {descriptors} descriptors, {threads} threads")
    return f"grown by {memory} KiB, {mappings} mappings, {descriptors} descriptors, {threads} threads"
