#!/usr/bin/env python3
"""The USDT probes of libculprit.so, as tracers use them: probes_test.py SOURCE BUILD

readelf reads the notes, objdump the code at the probes. gdb is a tracer that needs no rights of the kernel: it raises a
probe's semaphore, stops at its address and reads the arguments as the note describes them. The numbers that it prints
are compared with the dump of the same run. A container lets no one use the kernel's uprobes, with which bpftrace and
perf do the same.
"""
import collections
import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject

CULPRIT = str((BUILD / "bin/culprit").resolve())
LIBRARY = str((BUILD / "lib/libculprit.so").resolve())
GDB = shutil.which("gdb")
LONGEST_SECONDS = 100
MOST_INSTRUCTIONS = 4
ARGUMENTS = "ptr size weight device stack kind".split()
Note = collections.namedtuple("Note", "place base semaphore sizes")
Event = collections.namedtuple("Event", ["probe", *ARGUMENTS])

SCRIPT = (SOURCE / "examples/probes/events.gdb").read_text(encoding="ascii") + """
set confirm off
set startup-with-shell off
"""


def output_of(*words):
    return subprocess.run(words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=LONGEST_SECONDS, check=True).stdout


def notes():
    """The library's probes by name, from its notes."""
    found = {}
    for text in re.split(r"\n\s+stapsdt\s", output_of("readelf", "-nW", LIBRARY))[1:]:
        provider, name, place, base, semaphore, arguments = re.search(
            r"Provider: (\S+)\s+Name: (\S+)\s+Location: (\w+), Base: (\w+), Semaphore: (\w+)\s+Arguments: (.*)",
            text).groups()
        assert provider == "culprit" and name not in found, text
        found[name] = Note(int(place, 16), int(base, 16), int(semaphore, 16),
                           [word.split("@")[0] for word in arguments.split()])
    return found


def section(name):
    """(address, bytes, flags) of a section of the library."""
    found = re.search(r"\] " + re.escape(name) + r"\s+\S+\s+(\w+) \w+ (\w+) \w+\s+(\w+)",
                      output_of("readelf", "-SW", LIBRARY))
    return int(found[1], 16), int(found[2], 16), found[3]


def instructions():
    """(address, text) of each instruction of the library."""
    for line in output_of("objdump", "-d", "--no-show-raw-insn", LIBRARY).splitlines():
        found = re.match(r"\s*([0-9a-f]+):\s+(.*)", line)
        if found:
            yield int(found[1], 16), found[2]


def live_of(events):
    """The events of memory that is not freed: {(ptr, kind): event}. One that does not fit the others is an error."""
    live = {}
    for event in events:
        key = event.ptr, event.kind
        if event.probe == "alloc":
            assert key not in live, event
            live[key] = event
        else:
            begun = live.pop(key)
            assert begun[1:] == event[1:], (begun, event)
    return live


class NotesTest(unittest.TestCase):
    def test_the_notes_have_two_probes(self):
        found = notes()
        self.assertEqual(set(found), {"alloc", "free"})
        begin, size, flags = section(".probes")
        self.assertEqual(flags, "WA")
        base = section(".stapsdt.base")[0]
        code = dict(instructions())
        for note in found.values():
            self.assertEqual(note.sizes, ["8", "8", "8", "-4", "4", "8"])
            self.assertEqual(note.base, base)
            self.assertTrue(begin <= note.semaphore <= begin + size - 2 and note.semaphore % 2 == 0, note)
            self.assertEqual(code[note.place], "nop")
        self.assertNotEqual(found["alloc"].semaphore, found["free"].semaphore)

    def test_a_probe_without_a_listener_is_a_few_instructions(self):
        semaphores = {note.semaphore for note in notes().values()}
        code = list(instructions())
        seen = collections.Counter()
        for i, (_, text) in enumerate(code):
            found = re.search(r"# ([0-9a-f]+) ", text + " ")
            if not found or int(found[1], 16) not in semaphores:
                continue
            # The branch to the rest, which lies elsewhere.
            seen[int(found[1], 16)] += 1
            near = [text.split()[0] for _, text in code[i:i + MOST_INSTRUCTIONS]]
            self.assertTrue(any(re.fullmatch("jn?e", word) for word in near), near)
        # At least in a making, in the free of a call and of a teardown, and in a launch of a graph.
        self.assertTrue(all(seen[semaphore] >= 3 for semaphore in semaphores), seen)


@unittest.skipUnless(GDB, "no gdb")
class EventsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-probes-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.dump = str(self.folder / "traced.dump")
        self.environment = {"LD_PRELOAD": LIBRARY, "LD_LIBRARY_PATH": str((BUILD / "simcuda").resolve()),
                            "CULPRIT_QUIET": "1", "CULPRIT_OUT": self.dump}

    def script(self, *lines):
        path = self.folder / "script.gdb"
        path.write_text(SCRIPT + "\n".join(lines) + "\n", encoding="ascii")
        return str(path)

    def events_in(self, text):
        words = [line.split() for line in text.splitlines() if re.match("(alloc|free) 0x", line)]
        return [Event(word[0], int(word[1], 16), *map(int, word[2:6]), word[6]) for word in words]

    def trace(self, name, *arguments, **more):
        settings = [f"set environment {key} {value}" for key, value in {**self.environment, **more}.items()]
        done = subprocess.run([GDB, "-nx", "-q", "-batch", "-x", self.script(*settings, "run"), "--args",
                               subject(name), *arguments], cwd=self.folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)
        self.assertIn("exited normally", done.stdout, done.stderr)
        return self.events_in(done.stdout)

    def leaks(self):
        """The leaks and the memory that libraries hold, of the dump."""
        return json.loads(output_of(CULPRIT, "report", "--strict", "--format", "json", self.dump))["leaks"]

    def check_live(self, events):
        """Compares what the events leave live with the dump."""
        live = live_of(events).values()
        self.assertTrue(all(event.weight == event.size for event in events))
        sums = collections.Counter()
        for event in live:
            sums[event.kind, event.device, event.size] += 1
        expected, addresses = collections.Counter(), set()
        for leak in self.leaks():
            if leak["bytes"] == 0:
                continue
            device = -1 if leak["kind"].endswith("-host") else leak["device"]
            self.assertEqual(leak["bytes"] % leak["count"], 0)
            expected[leak["kind"], device, leak["bytes"] // leak["count"]] += leak["count"]
            if leak["kind"] != "vmm-physical":
                addresses |= {int(handle, 16) for handle in leak["handles"]}
        self.assertEqual(sums, expected)
        self.assertEqual({event.ptr for event in live if event.kind != "vmm-physical"}, addresses)
        return live

    def functions(self, event):
        text = output_of(CULPRIT, "stack", self.dump, str(event.stack))
        self.assertRegex(text, rf"\Astack {event.stack} · \d+ allocations?\n")
        return text

    def test_each_kind_of_the_runtime(self):
        live = self.check_live(self.trace("runtime_kinds", "leak"))
        kinds = {event.kind for event in live}
        self.assertGreaterEqual(kinds, {"device", "managed", "pitched", "pinned-host", "registered-host", "array",
                                        "mipmapped-array", "stream-ordered", "graph-memory"})
        managed = next(event for event in live if event.kind == "managed")
        self.assertIn("make_cudaMallocManaged", self.functions(managed))
        self.assertIn("make_cudaMallocArray",
                      self.functions(next(event for event in live if event.kind == "array" and event.size == 4444)))

    def test_all_kinds_of_the_driver_leaked_and_freed(self):
        live = self.check_live(self.trace("routes", "dlsym", "leak"))
        self.assertIn("vmm-physical", {event.kind for event in live})
        pathlib.Path(self.dump).unlink()
        events = self.trace("routes", "dlsym", "free")
        self.assertGreater(len(events), 40)
        self.assertEqual(live_of(events), {})

    def test_memory_of_graphs_is_told_of_when_it_is_there(self):
        for case in ("leak", "leak_of_the_last_launch", "leak_of_auto_free", "leak_of_a_child", "auto_free", "freed",
                     "freed_in_its_graph", "freed_in_another_graph", "freed_in_another_capture", "never_launched",
                     "never_launched_and_destroyed", "freed_twice"):
            with self.subTest(case):
                events = self.trace("graph_memory", case)
                self.assertEqual(bool(events), case != "freed_in_its_graph" and not case.startswith("never"))
                self.assertEqual(len(self.check_live(events)), case.startswith("leak"))
                pathlib.Path(self.dump).unlink()

    def test_a_refused_free_gives_the_memory_back(self):
        events = self.trace("free_refused", SIMCUDA_FAIL="cuMemFree_v2:1:700")
        self.assertEqual([event.probe for event in events], ["alloc", "free", "alloc"])
        self.assertEqual(len({event[1:] for event in events}), 1)
        self.check_live(events)

    def test_memory_that_goes_with_its_context(self):
        events = self.trace("teardown", "destroy")
        self.assertEqual([(event.probe, event.size) for event in events], [("alloc", 11001), ("free", 11001)])

    def test_recording_that_is_switched_off(self):
        # 10001 is freed while recording is off, 10002 later; 10003 is made while it is off, 10004 after.
        events = self.trace("switched", *"saasfasaff", CULPRIT_START="signal")
        self.assertEqual([(event.probe, event.size) for event in events],
                         [("alloc", 10001), ("alloc", 10002), ("free", 10001), ("alloc", 10004), ("free", 10002)])
        self.check_live(events)

    def test_a_listener_that_comes_late_and_goes(self):
        with subprocess.Popen([subject("switched"), *"awafw"], env={**ENVIRONMENT, **self.environment},
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            with subprocess.Popen([GDB, "-nx", "-q", "-batch", "-p", str(running.pid), "-x",
                                   self.script("echo LISTENS\\n", "continue")], env=ENVIRONMENT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True) as tracer:
                lines = []
                while not lines or "LISTENS" not in lines[-1]:
                    lines.append(tracer.stdout.readline())
                    self.assertTrue(lines[-1], lines)
                note = notes()["alloc"]
                self.assertEqual(self.semaphore(running.pid, note), 1)
                running.stdin.close()
                rest, _ = tracer.communicate(timeout=LONGEST_SECONDS)
            running.stdout.close()
        events = self.events_in("".join(lines) + rest)
        self.assertEqual([(event.probe, event.size) for event in events], [("alloc", 10002), ("free", 10001)])

    def semaphore(self, pid, note):
        """Its value in a process."""
        begins = [line.split() for line in pathlib.Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
                  if line.endswith("libculprit.so")]
        load = int(begins[0][0].split("-")[0], 16)
        with open(f"/proc/{pid}/mem", "rb") as memory:
            memory.seek(load + note.semaphore)
            return int.from_bytes(memory.read(2), "little")

    def test_a_stack_that_is_not_there(self):
        self.trace("free_refused", SIMCUDA_FAIL="cuMemFree_v2:1:700")
        done = subprocess.run([CULPRIT, "stack", self.dump, "1"], env=ENVIRONMENT, capture_output=True, text=True,
                              timeout=LONGEST_SECONDS, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("stack 1 is not in ", done.stderr)


if __name__ == "__main__":
    unittest.main()
