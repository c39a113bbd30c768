#!/usr/bin/env python3
"""The screen of `culprit top` on terminals of tmux: top_screen_test.py SOURCE BUILD

Keys are sent to it, and the screen is read back: at three sizes, without colours, in the C locale, while it is resized,
stopped and ended, and while its program ends. stty tells whether the terminal is as it was.
"""
import contextlib
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from build_tree import BUILD, ENVIRONMENT, subject

CULPRIT = str((BUILD / "bin/culprit").resolve())
TMUX = shutil.which("tmux")
LONGEST_SECONDS = 60
SIZES = ((80, 24), (120, 40), (40, 10))
# Nothing of the real machine: no NVML.
TERMINAL = {name: value for name, value in ENVIRONMENT.items()
            if name not in ("NO_COLOR", "TMUX", "COLUMNS", "LINES", "TERM")} | {
                "LC_ALL": "C.UTF-8", "CULPRIT_NVML": "/nowhere/libnvidia-ml.so.1"}


@contextlib.contextmanager
def program(folder, *words, preload=True):
    """A process that is ready; it ends with the block."""
    environment = {**ENVIRONMENT, "CULPRIT_QUIET": "1", "CULPRIT_OUT": str(folder) + "/%p.dump"}
    if preload:
        environment["LD_PRELOAD"] = str(BUILD / "lib/libculprit.so")
    with subprocess.Popen([subject(words[0]), *words[1:]], env=environment, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as running:
        while running.stdout.readline() != "ready\n":
            assert running.poll() is None
        yield running
        running.kill()


class Screen:
    """`culprit top` below a shell in a terminal of tmux, each with a server of its own."""

    number = 0

    def __init__(self, folder, *words, size=(80, 24), term="tmux-256color", shell="{}", **more):
        Screen.number += 1
        self.socket = str(pathlib.Path(folder) / f"tmux-{Screen.number}")
        self.folder = folder
        environment = {**TERMINAL, **more}
        top = shlex.join([CULPRIT, "top", "--interval", "0.1", *words])
        # The modes of the terminal before and after, and the exit status.
        script = f"trap : INT; stty -g >before; {shell.format(top)}; echo ended $?; stty -g >after; exec sleep 1000"
        width, height = size
        # A window of tmux has its own TERM; the one of the server is another matter.
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "-c", str(folder),
                  "env", f"TERM={term}", "bash", "-c", script, env=environment)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")

    def tmux(self, *words, env=None):
        return subprocess.run([TMUX, "-S", self.socket, *words], env=env or TERMINAL, capture_output=True, text=True,
                              timeout=LONGEST_SECONDS, check=True).stdout

    def text(self, colours=False):
        return self.tmux("capture-pane", "-p", *(["-e"] if colours else []))

    def keys(self, *names):
        self.tmux("send-keys", *names)

    def wait(self, pattern, gone=False):
        """The screen when it has the pattern, or no longer has it."""
        end = time.monotonic() + LONGEST_SECONDS
        while True:
            text = self.text()
            if (re.search(pattern, text) is None) == gone:
                return text
            assert time.monotonic() < end, f"{pattern} {'is' if gone else 'is not'} on the screen:\n{text}"
            time.sleep(0.05)

    def pid(self):
        """Of culprit top."""
        shell = int(self.tmux("display-message", "-p", "#{pane_pid}"))
        children = pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text(encoding="ascii").split()
        return int(children[0])

    def same_terminal(self):
        """Whether the terminal is as it was, after the end."""
        folder = pathlib.Path(self.folder)
        end = time.monotonic() + LONGEST_SECONDS
        while not (folder / "after").exists() or not (folder / "after").read_text(encoding="ascii"):
            assert time.monotonic() < end
            time.sleep(0.05)
        same = (folder / "before").read_text(encoding="ascii") == (folder / "after").read_text(encoding="ascii")
        (folder / "after").unlink()
        return same and self.tmux("display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"


@unittest.skipUnless(TMUX, "tmux is not installed")
class TopScreenTest(unittest.TestCase):
    def setUp(self):
        self.stack = contextlib.ExitStack()
        self.addCleanup(self.stack.close)
        self.folder = pathlib.Path(self.stack.enter_context(tempfile.TemporaryDirectory(prefix="top-")))

    def start(self, *words, **more):
        return self.stack.enter_context(program(self.folder, *words, **more))

    def screen(self, *words, **more):
        return self.stack.enter_context(Screen(self.folder, *words, **more))

    def test_three_sizes(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        for size in SIZES:
            with self.subTest(size=size), Screen(self.folder, pid, size=size) as screen:
                text = screen.wait(r"\+[\d.]+ .*watched\.cpp:23|\+[\d.]+ .*cudaMalloc")
                lines = text.splitlines()
                self.assertEqual(len(lines), size[1])
                self.assertLessEqual(max(len(line) for line in lines), size[0])
                self.assertTrue(lines[0].startswith(f"culprit top · watched [{pid}]"), text)
                self.assertRegex(text, r"GPU 0 +[\d.]+ [KM]iB live  [▁▂▃▄▅▆▇█]+")
                self.assertIn("LIVE▾", text)
                self.assertEqual("allocations/s" in text, size[1] > 10)
                self.assertEqual("OLDEST" in text, size[0] > 40)
                screen.keys("Down")
                screen.keys("Enter")
                screen.wait(r"process \d+ watched")
                screen.keys("End")
                # The page ends with the source.
                screen.wait(r"   >    23    CHECKED\(cudaMalloc")
                screen.keys("q")
                screen.wait("LIVE▾")
                screen.keys("q")
                screen.wait(r"ended 0")
                self.assertTrue(screen.same_terminal())

    def test_keys(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        screen = self.screen(pid, size=(120, 30))
        self.assertNotIn("SINCE M", screen.wait("watched.cpp"))
        screen.keys("m")
        screen.wait(r"SINCE M")
        screen.wait(r"m [\d.]+ s ago|changes since now")
        screen.keys("g")
        screen.wait(r"BY line")
        screen.wait(r"x +[\d.]+ s +watched\.cpp:23\b")
        screen.keys("G", "G")
        screen.wait(r"BY mark")
        screen.keys("g", "o")
        screen.wait(r"START▾")
        screen.keys("r")
        screen.wait(r"START▴")
        screen.keys("/")
        screen.keys("n", "o", "n", "e")
        screen.wait("no row has \"none\"")
        screen.keys("Escape")
        screen.wait("watched.cpp")
        screen.keys("?")
        screen.wait("Theil-Sen")
        screen.keys("Escape")
        screen.keys("Space")
        screen.wait("stopped")
        live = re.search(r"GPU 0 +\S+ \S+ live", screen.text())[0]
        time.sleep(0.5)
        self.assertIn(live, screen.text())
        screen.keys("Space")
        screen.wait(re.escape(live), gone=True)
        screen.keys("p")
        screen.wait(rf" {pid} +[\d.]+ [KM]iB +- +recording")
        screen.keys("Escape")
        screen.keys("s")
        saved = re.search(r"saved (\S+\.dump)", screen.wait("saved "))[1]
        done = subprocess.run([CULPRIT, "report", self.folder / saved], env=ENVIRONMENT, capture_output=True, text=True,
                              check=False, timeout=LONGEST_SECONDS)
        self.assertIn("snapshot at ", done.stdout)
        self.assertIn("watched.cpp:23", done.stdout)

    def test_resize(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        screen = self.screen(pid)
        screen.wait("OLDEST")
        for width, height in (*SIZES, (20, 3), (1, 1), (200, 60), (80, 24)):
            screen.tmux("resize-window", "-x", str(width), "-y", str(height))
            time.sleep(0.2)
            self.assertEqual(len(screen.text().splitlines()), height)
        screen.wait(r"(?s)^culprit top.*OLDEST.*\? keys")

    def test_the_process_ends(self):
        running = self.start("end_how", "live")
        screen = self.screen(str(running.pid))
        screen.wait("leak_here")
        running.stdin.close()
        running.wait(LONGEST_SECONDS)
        text = screen.wait("has ended")
        self.assertIn("ended with exit code 9", text)
        self.assertIn("leak_here", text)
        screen.keys("q")
        screen.wait("ended 0")

    def test_a_dump(self):
        running = self.start("end_how", "live")
        running.stdin.close()
        running.wait(LONGEST_SECONDS)
        dump = f"{running.pid}.dump"
        screen = self.screen(dump)
        self.assertIn("ended with exit code 9", screen.wait("leak_here"))
        screen.keys("q")
        screen.wait("ended 0")
        (self.folder / "after").unlink()
        (self.folder / dump).write_bytes(b"garbage")
        screen = self.screen(dump)
        screen.wait("ended 3")
        self.assertTrue(screen.same_terminal())

    def test_all_processes_and_none(self):
        screen = self.screen(CULPRIT_PROC=str(self.folder))
        screen.wait("no process records here")
        screen.tmux("kill-server")
        pids = [self.start("end_how", "live").pid, self.start("watched", "leak", "600000").pid]
        screen = self.screen(size=(120, 40))
        # Other tests may have programs here, too.
        for pid, place in zip(pids, ("leak_here", "watched.cpp:23"), strict=True):
            screen.keys("Escape", "/")
            screen.keys(*str(pid), "Enter")
            screen.wait(rf"(?s)/{pid}\b.* {pid}  \S*.*{re.escape(place)}")
        # Of all processes those that run are shown.
        os.kill(pids[1], signal.SIGKILL)
        screen.wait("no row has")
        screen.keys("Escape", "/")
        screen.keys(*str(pids[0]), "Enter")
        self.assertNotIn("watched.cpp", screen.wait("leak_here"))

    def test_attach(self):
        running = self.start("attach_target", preload=False)
        pid = str(running.pid)
        screen = self.screen(pid, size=(120, 30))
        self.assertIn(f"a attaches to process {pid}", screen.wait("does not run under culprit"))
        screen.keys("a")
        screen.wait(f"attach to process {pid}\\?")
        screen.keys("n")
        screen.wait("attach to process", gone=True)
        screen.keys("a", "y")
        text = screen.wait("press enter to go on")
        self.assertIn("attached to", text)
        self.assertNotIn("LIVE", text)
        screen.keys("Enter")
        screen.wait(f"\\[{pid}\\] · recording")
        screen.keys("q")
        screen.wait("ended 0")
        self.assertTrue(screen.same_terminal())

    def test_the_figures_of_nvml(self):
        pid = str(self.start("end_how", "live").pid)
        other = str(self.start("attach_target", preload=False).pid)
        done = subprocess.run([CULPRIT, "top", pid, "--format", "json"], env=TERMINAL, capture_output=True, text=True,
                              check=True, timeout=LONGEST_SECONDS)
        uuid = json.loads(done.stdout)["devices"][0]["uuid"]
        (self.folder / "nvml").write_text(f"gpu name=H100 total=85899345920 free=80000000000 uuid={uuid}\n"
                                          f"process compute {pid} 600000000\nprocess compute {other} 3221225472\n",
                                          encoding="ascii")
        nvml = {"CULPRIT_NVML": str(BUILD / "lib/libfake_nvml.so"), "CULPRIT_FAKE_NVML": str(self.folder / "nvml")}
        screen = self.screen(pid, size=(120, 30), **nvml)
        self.assertRegex(screen.wait("in use"), r"\[#:+o+ +\] 5\.49 GiB of 80\.0 GiB in use")
        screen.keys("p")
        screen.wait(rf" {pid} +10\.7 KiB +572 MiB +recording")
        screen.wait(rf" {other} +- +3\.00 GiB +not recorded: a attaches")
        screen.keys("End", "a")
        screen.wait(rf"attach to process {other}\?")

    def test_an_exception_leaves_the_terminal_as_it_was(self):
        pid = str(self.start("end_how", "live").pid)
        # No thread can start: its stack would be larger than all memory.
        screen = self.screen(pid, shell="(ulimit -s 4000000; ulimit -v 2000000; exec {})")
        self.assertIn("culprit: ", screen.wait("ended 3"))
        self.assertTrue(screen.same_terminal())

    def test_colours(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        coloured = r"\x1b\[(?:\d+;)*3[1-6]m"
        for words, more, expected in ((["--color", "auto"], {}, True), (["--color", "never"], {}, False),
                                      ([], {"NO_COLOR": "1"}, False), ([], {"term": "vt100"}, False)):
            with self.subTest(words=words, more=more), Screen(self.folder, pid, *words, **more) as screen:
                screen.wait(r"\+[\d.]+")
                found = re.search(coloured, screen.text(colours=True))
                self.assertEqual(found is not None, expected)
                self.assertRegex(screen.text(colours=True), r"\x1b\[(\d+;)*7m")  # the chosen row
                screen.keys("q")
                screen.wait("ended 0")

    def test_the_c_locale(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        screen = self.screen(pid, LC_ALL="C")
        text = screen.wait(r"\+[\d.]+")
        self.assertTrue(text.isascii(), text)
        self.assertRegex(text, r"live  [_.=+*%#-]+")
        self.assertIn("LIVEv", text)

    def test_terminals_that_are_none(self):
        pid = str(self.start("end_how", "live").pid)
        for term in ("dumb", "no-such-terminal"):
            with self.subTest(term=term), Screen(self.folder, pid, "--times", "0", term=term) as screen:
                text = screen.wait(r"(?s)leak_here.*leak_here" if term == "dumb" else "leak_here")
                self.assertIn("BYTES", text)
                os.kill(screen.pid(), signal.SIGTERM)
                screen.wait("ended 143")
        # Without a keyboard.
        screen = self.screen(pid, shell="{} </dev/null")
        self.assertIn("BYTES", screen.wait("leak_here"))

    def test_once_prints(self):
        pid = str(self.start("end_how", "live").pid)
        screen = self.screen(pid, "--once")
        self.assertIn("BYTES", screen.wait("ended 0"))
        done = subprocess.run([CULPRIT, "top", pid, "--format", "json", "--times", "3", "--interval", "0.1"],
                              env=TERMINAL, capture_output=True, text=True, check=True, timeout=LONGEST_SECONDS)
        looks = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(looks), 3)
        self.assertEqual([row["bytes"] for row in looks[2]["rows"]], [11001])
        self.assertEqual(looks[2]["rows"][0]["bytes_per_minute"], 0)
        self.assertIsNone(looks[0]["rows"][0]["bytes_per_minute"])
        self.assertEqual(looks[0]["processes"][0]["state"], "recording")

    def test_signals_leave_the_terminal_as_it_was(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            with self.subTest(number=number), Screen(self.folder, pid) as screen:
                screen.wait("watched.cpp")
                os.kill(screen.pid(), number)
                screen.wait(rf"ended {128 + number}")
                self.assertTrue(screen.same_terminal())
        with Screen(self.folder, pid) as screen:
            screen.wait("watched.cpp")
            screen.keys("C-c")
            screen.wait("ended 130")
            self.assertTrue(screen.same_terminal())

    def test_control_z(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        # A shell with job control: the screen stops, and fg brings it back.
        screen = self.screen(pid, shell="set -m; {} & fg; stty -a | tr ';' '\\n' | grep -w icanon; read line; fg")
        screen.wait("watched.cpp")
        screen.keys("C-z")
        text = screen.wait("icanon")
        self.assertNotIn("-icanon", text)
        self.assertNotIn("LIVE", text)
        screen.keys("x", "Enter")
        screen.wait("LIVE▾")
        screen.keys("g")
        screen.wait("BY line")
        screen.keys("q")
        screen.wait("ended 0")
        self.assertTrue(screen.same_terminal())

    def test_a_terminal_that_goes_away(self):
        pid = str(self.start("watched", "leak", "600000").pid)
        child, terminal = pty.fork()
        if child == 0:
            os.execve(CULPRIT, [CULPRIT, "top", pid], {**TERMINAL, "TERM": "xterm"})
        self.assertTrue(os.read(terminal, 100))
        os.close(terminal)
        end = time.monotonic() + LONGEST_SECONDS
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)


if __name__ == "__main__":
    unittest.main()
