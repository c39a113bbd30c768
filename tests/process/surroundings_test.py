"""Starts test programs with signals ignored or blocked and with standard descriptors closed, as nohup, background jobs,
daemons and CI runners do: the same tests pass, and none hangs.

Usage: surroundings_test.py PROGRAM FILTER [PROGRAM FILTER ...]
"""

import os
import signal
import subprocess
import sys
import unittest

LONGEST_SECONDS = 150
PROGRAMS = []


def ignore(*names):
    def prepare():
        for name in names:
            signal.signal(getattr(signal, name), signal.SIG_IGN)

    return prepare


def block(*names):
    return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [getattr(signal, name) for name in names])


def close_all():
    for descriptor in (0, 1, 2):
        os.close(descriptor)


SURROUNDINGS = {
    "nohup": ignore("SIGHUP"),
    "background job": ignore("SIGINT", "SIGQUIT"),
    "everything ignored": ignore("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGPIPE", "SIGCHLD", "SIGUSR1", "SIGUSR2"),
    "everything blocked": block("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGCHLD", "SIGUSR1", "SIGUSR2", "SIGALRM"),
    "standard input closed": lambda: os.close(0),
    "no standard descriptors": close_all,
}


def run(program, wanted, prepare):
    """The exit code and, where it can be printed, the output."""
    with subprocess.Popen([program, wanted], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, restore_signals=False, start_new_session=True,
                          preexec_fn=prepare) as running:  # noqa: PLW1509 (no other thread is running)
        try:
            output, _ = running.communicate(timeout=LONGEST_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            return "time-out", running.communicate()[0]
        return running.returncode, output


class SurroundingsTest(unittest.TestCase):
    def test_programs(self):
        for program, wanted in PROGRAMS:
            for name, prepare in SURROUNDINGS.items():
                with self.subTest(program=program, surroundings=name):
                    code, output = run(program, wanted, prepare)
                    self.assertEqual(code, 0, output[-4000:])
                    if prepare is not close_all:
                        self.assertIn("All tests passed", output)


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) < 2 or len(words) % 2 != 0:
        sys.exit(__doc__)
    PROGRAMS = list(zip(words[::2], words[1::2]))
    unittest.main(argv=sys.argv[:1])
