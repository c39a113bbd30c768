#!/usr/bin/env python3
"""Where symbols come from: separate debug files, servers of DEBUGINFOD_URLS, and ids that do not depend on them:
symbols_test.py SOURCE BUILD
"""
import contextlib
import ctypes
import http.server
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from build_tree import BUILD, ENVIRONMENT, subject

CULPRIT = str(BUILD / "bin" / "culprit")


def has_client():
    """Whether the library that asks the servers is installed: libdw loads it where it is."""
    try:
        return hasattr(ctypes.CDLL("libdebuginfod.so.1"), "debuginfod_set_progressfn")
    except OSError:
        return False


class Server(http.server.ThreadingHTTPServer):
    """Serves debug files by build ID, at /buildid/ID/debuginfo."""

    def __init__(self, files):
        self.files = files
        self.asked = []
        super().__init__(("127.0.0.1", 0), Answer)

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"


class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        content = self.server.files.get(self.path)
        self.send_response(200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, format, *arguments):
        pass


@contextlib.contextmanager
def serving(files):
    with Server(files) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def silent_server():
    """Takes connections and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen(16)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


class Symbols(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-symbols-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # One program in three forms: as it was compiled, without debug information, and without symbols too.
        self.whole = self.copy("whole", [])
        self.debug = self.folder / "debug" / "lean.debug"
        self.debug.parent.mkdir()
        subprocess.run(["objcopy", "--only-keep-debug", self.whole, self.debug], check=True)
        self.lean = self.copy("lean", ["--strip-debug", f"--add-gnu-debuglink={self.debug}"])
        self.bare = self.copy("bare", ["--strip-all", f"--add-gnu-debuglink={self.debug}"])

    def copy(self, name, options):
        path = self.folder / name / "leak_one"
        path.parent.mkdir()
        if options:
            subprocess.run(["objcopy", *options, self.whole, path], check=True)
        else:
            shutil.copy(subject("leak_one"), path)
        return path

    def recorded(self, program):
        dump = self.folder / (program.parent.name + ".dump")
        done = subprocess.run([CULPRIT, "run", "--out", str(dump), "--", str(program)], env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        self.assertTrue(dump.exists(), done.stderr)
        return dump

    def report(self, dump, *options, **environment):
        return subprocess.run([CULPRIT, "report", "--format", "json", *options, str(dump)],
                              env={**ENVIRONMENT, "DEBUGINFOD_CACHE_PATH": str(self.folder / "cache"), **environment},
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)

    def leak(self, dump, *options, **environment):
        done = self.report(dump, *options, **environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["leaks"][0]

    def served(self):
        """The debug file by its address on a server."""
        notes = subprocess.run(["readelf", "-n", self.debug], capture_output=True, text=True, check=True).stdout
        build_id = re.search("Build ID: ([0-9a-f]+)", notes)[1]
        return {f"/buildid/{build_id}/debuginfo": self.debug.read_bytes()}

    def test_ids_do_not_depend_on_debug_information_and_hidden_frames(self):
        beside = ("--debug-dir", str(self.debug.parent))
        id_of = {}
        for program in self.whole, self.lean:
            dump = self.recorded(program)
            for options in (), ("--full-stacks",), beside, (*beside, "--full-stacks"):
                leak = self.leak(dump, *options)
                id_of[program.parent.name, options] = leak["id"]
                has_lines = program == self.whole or "--debug-dir" in options
                lines = [frame["line"] for frame in leak["stack"] if frame["module"] == str(program)]
                self.assertEqual(any(lines), has_lines, leak["stack"])
        # With a debug file the symbol table of a stripped program names its functions, too.
        bare = self.recorded(self.bare)
        id_of["bare", beside] = self.leak(bare, *beside)["id"]
        self.assertEqual(len(set(id_of.values())), 1, id_of)
        self.assertNotEqual(self.leak(bare)["id"], id_of["bare", beside])

    def test_a_second_report_takes_symbols_from_the_cache(self):
        cache = self.folder / "symbols"
        for program in self.whole, self.lean:
            dump = self.recorded(program)
            truth = self.report(dump).stdout
            known = f"symbols of {program}: .* known from an earlier report"
            for options, is_known, files in (("--no-cache",), False, 0), ((), False, 1), ((), True, 1), (
                    ("--no-cache",), False, 1):
                done = self.report(dump, "--verbose", *options, CULPRIT_CACHE=str(cache))
                self.assertEqual(done.stdout, truth)
                self.assertEqual(re.search(known, done.stderr) is not None, is_known, done.stderr)
                self.assertEqual(len(list(cache.glob("*"))) >= files, True)
                self.assertEqual(cache.exists(), files > 0)
            shutil.rmtree(cache)

    @unittest.skipUnless(has_client(), "libdebuginfod.so.1 is not installed")
    def test_debug_information_is_downloaded(self):
        dump = self.recorded(self.lean)
        with serving(self.served()) as server:
            off = self.leak(dump, "--debuginfod-limit", "0", DEBUGINFOD_URLS=server.address)
            self.assertEqual(off["stack"][0]["line"], 0)
            self.assertEqual(server.asked, [])
            leak = self.leak(dump, DEBUGINFOD_URLS=server.address)
            self.assertNotEqual(leak["stack"][0]["line"], 0, server.asked)
            self.assertIn(next(iter(server.files)), server.asked)
        # From the cache, when the server is gone.
        self.assertEqual(self.leak(dump, DEBUGINFOD_URLS=server.address), leak)
        self.assertEqual(leak["id"], self.leak(dump)["id"])

    @unittest.skipUnless(has_client(), "libdebuginfod.so.1 is not installed")
    def test_a_downloaded_file_that_is_no_debug_file_is_left_out(self):
        dump = self.recorded(self.lean)
        for content in (b"", b"<html>not found</html>", b"\x7fELF" + bytes(4000)):
            shutil.rmtree(self.folder / "cache", ignore_errors=True)
            with serving(dict.fromkeys(self.served(), content)) as server:
                self.assertEqual(self.leak(dump, DEBUGINFOD_URLS=server.address)["stack"][0]["line"], 0)
                self.assertNotEqual(server.asked, [])

    @unittest.skipUnless(has_client(), "libdebuginfod.so.1 is not installed")
    def test_servers_that_are_silent_have_one_limit_for_all_files(self):
        dumps = [self.recorded(self.lean), self.recorded(self.bare)]
        with silent_server() as address:
            for number, options in enumerate(((), ("--jobs", "1"))):
                start = time.monotonic()
                done = subprocess.run([CULPRIT, "report", "--debuginfod-limit", "2", *options, *map(str, dumps)],
                                      env={**ENVIRONMENT, "DEBUGINFOD_URLS": address, "DEBUGINFOD_TIMEOUT": "90",
                                           "DEBUGINFOD_CACHE_PATH": str(self.folder / f"cache{number}")},
                                      stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertLess(time.monotonic() - start, 20)
                self.assertEqual(done.stderr.count("waiting for debug information of DEBUGINFOD_URLS, at most 2 s"), 1,
                                 done.stderr)
                self.assertEqual(done.stderr.count("was downloaded for 2 s, which is the limit"), 1, done.stderr)

    def test_the_variable_reaches_programs_unchanged(self):
        """culprit switches the downloads off in its own environment; the program that it runs gets the user's."""
        for options in (), ("--debuginfod-limit", "0"):
            said = self.folder / "said"
            said.write_text("")
            line = f"{subject('driver_leak_one')}; echo \"$DEBUGINFOD_URLS\" >>{said}"
            done = subprocess.run([CULPRIT, "sweep", *options, "--", "sh", "-c", line],
                                  env={**ENVIRONMENT, "DEBUGINFOD_URLS": "http://127.0.0.1:9/"},
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
            lines = said.read_text().splitlines()
            self.assertGreaterEqual(len(lines), 2, done.stderr)
            self.assertEqual(set(lines), {"http://127.0.0.1:9/"})


if __name__ == "__main__":
    unittest.main(argv=["symbols_test"], verbosity=2)
