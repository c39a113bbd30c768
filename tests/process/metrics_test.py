#!/usr/bin/env python3
"""`culprit metrics` of running programs: metrics_test.py SOURCE BUILD

The listener meets slow clients, garbage and thousands of requests; promtool, where it is installed, checks the metrics,
and the alert rules and the dashboard of examples/metrics.
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.request

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject

CULPRIT = str(BUILD / "bin/culprit")
EXAMPLES = SOURCE / "examples/metrics"
PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")
LONGEST_SECONDS = 60


def run(*words, **more):
    return subprocess.run([CULPRIT, "metrics", *words], env={**ENVIRONMENT, **more}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)


@contextlib.contextmanager
def program(folder):
    """A process that leaks 11001 bytes and goes on; it ends with its standard input."""
    environment = {**ENVIRONMENT, "LD_PRELOAD": str(BUILD / "lib/libculprit.so"), "CULPRIT_QUIET": "1",
                   "CULPRIT_OUT": str(folder) + "/%p.dump"}
    with subprocess.Popen([subject("end_how"), "live"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as running:
        while running.stdout.readline() != "ready\n":
            assert running.poll() is None
        yield running
        running.stdin.close()
        running.wait(LONGEST_SECONDS)


class Served:
    """`culprit metrics --listen`, with the port that it chose."""

    def __init__(self, *words, address="127.0.0.1"):
        with tempfile.TemporaryFile("w+") as log:
            self.process = subprocess.Popen([CULPRIT, "metrics", "--listen", address + ":0", *words], env=ENVIRONMENT,
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            end = time.monotonic() + LONGEST_SECONDS
            found = None
            while found is None and time.monotonic() < end and self.process.poll() is None:
                log.seek(0)
                found = re.search(r"serves (http://\S+:(\d+)/metrics)", log.read())
                time.sleep(0.02)
            log.seek(0)
            assert found, log.read()
        self.url, self.port = found[1], int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(LONGEST_SECONDS)

    def get(self, accept="text/plain"):
        request = urllib.request.Request(self.url, headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=LONGEST_SECONDS) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=LONGEST_SECONDS)

    def send(self, data):
        """All that is answered to some bytes; the server may end the connection before it has taken them."""
        with self.connect() as client:
            with contextlib.suppress(OSError):
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(OSError):
                while part := client.recv(65536):
                    answer += part
            return answer

    def facts(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return {name: int(re.search(name + r":\s+(\d+)", status)[1]) for name in ("VmRSS", "VmHWM", "Threads")} | {
            "files": len(os.listdir(f"/proc/{self.process.pid}/fd"))}


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        folder = cls.stack.enter_context(tempfile.TemporaryDirectory(prefix="metrics-"))
        cls.folder = pathlib.Path(folder)
        cls.running = cls.stack.enter_context(program(folder))
        cls.pid = str(cls.running.pid)

    @classmethod
    def tearDownClass(cls):
        cls.stack.close()

    def check_text(self, text):
        self.assertIn(f'culprit_live_bytes{{pid="{self.pid}",device="0",kind="device",cause="never-freed"}} 11001\n',
                      text)
        self.assertRegex(text, r'culprit_stack_bytes\{pid="' + self.pid + r'",id="[0-9a-f]{16}",function="leak_here",'
                                                                          r'place="end_how.cpp:18"\} 11001\n')
        self.assertIn(f'culprit_process_running{{pid="{self.pid}"}} 1\n', text)

    def test_all_processes_one_and_a_dump(self):
        for words in ([], [self.pid], [str(self.folder / (self.pid + ".dump"))]):
            done = run(*words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.check_text(done.stdout)
        self.assertNotIn("function=\"leak_here\"", run("--stacks", "0", self.pid).stdout)
        with subprocess.Popen(["sleep", "60"]) as sleeping:
            done = run(str(sleeping.pid))
            sleeping.kill()
        self.assertEqual(done.returncode, 3)
        self.assertIn("culprit attach", done.stderr)

    def test_symbols_are_kept(self):
        cache = self.folder / "symbols"
        self.check_text(run(self.pid, CULPRIT_CACHE=str(cache)).stdout)
        self.assertTrue(any("leak_here" in path.read_text(encoding="utf-8") for path in cache.iterdir()))
        self.check_text(run(self.pid, CULPRIT_CACHE=str(cache)).stdout)
        shutil.rmtree(cache)

    def test_the_rest_by_nvml(self):
        uuid = re.search(r'culprit_device_info\{[^}]*uuid="([^"]+)"', run(self.pid).stdout)[1]
        (self.folder / "nvml").write_text(f"gpu name=H100 total=85899345920 free=80000000000 uuid={uuid}\n"
                                          f"process compute {self.pid} 600000000\n", encoding="ascii")
        nvml = {"CULPRIT_NVML": str(BUILD / "lib/libfake_nvml.so"), "CULPRIT_FAKE_NVML": str(self.folder / "nvml")}
        for words in ([], [self.pid]):
            text = run(*words, **nvml).stdout
            self.assertIn(f'culprit_charged_bytes{{pid="{self.pid}",device="0"}} 600000000\n', text)
            self.assertIn(f'culprit_balance_bytes{{pid="{self.pid}",device="0",part="allocations"}} 11001\n', text)
            parts = re.findall(r'culprit_balance_bytes\{pid="' + self.pid + r'"[^}]*\} (-?[0-9]+)\n', text)
            self.assertEqual(sum(int(part) for part in parts), 600000000)
        # NVML that hangs takes 5 seconds once, and the processes are found without it.
        (self.folder / "nvml").write_text("hang\n", encoding="ascii")
        self.check_text(run(**nvml).stdout)
        (self.folder / "nvml").unlink()

    @unittest.skipUnless(PROMTOOL, "promtool is not installed")
    def test_promtool(self):
        text = run().stdout
        done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False,
                              timeout=LONGEST_SECONDS)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = subprocess.run([PROMTOOL, "check", "rules", EXAMPLES / "alerts.yml"], capture_output=True, text=True,
                              check=False, timeout=LONGEST_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        done = subprocess.run([PROMTOOL, "test", "rules", EXAMPLES / "alerts_test.yml"], capture_output=True, text=True,
                              check=False, timeout=LONGEST_SECONDS)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @contextlib.contextmanager
    def written_again_and_again(self, pid):
        """Reads the metrics that a process is written to every 0.1 s: the verdicts need many looks."""
        path = self.folder / "again.prom"
        with subprocess.Popen([CULPRIT, "metrics", pid, "--textfile", path, "--every", "100ms"], env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
            end = time.monotonic() + LONGEST_SECONDS

            def read():
                self.assertLess(time.monotonic(), end)
                self.assertIsNone(writer.poll())
                time.sleep(0.1)
                return path.read_text(encoding="utf-8") if path.exists() else ""
            yield read
            writer.terminate()
        for left in self.folder.glob("again.prom*"):
            left.unlink()

    def test_verdicts_of_watch(self):
        environment = {**ENVIRONMENT, "LD_PRELOAD": str(BUILD / "lib/libculprit.so"), "CULPRIT_QUIET": "1",
                       "CULPRIT_OUT": str(self.folder / "watched.dump")}
        row = (r'culprit_row_verdict\{pid="PID",id="(\w+)",kind="device",function="[^"]*allocate",'
               r'place="watched.cpp:23",verdict="leaking"\} 1\n')
        with subprocess.Popen([subject("watched"), "leak", "60000"], env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as leaking:
            pid, text, found = str(leaking.pid), "", None
            while not (self.folder / "watched.dump").exists():
                self.assertIsNone(leaking.poll())
                time.sleep(0.02)
            self.assertNotIn("culprit_row", run(pid).stdout)
            with self.written_again_and_again(pid) as read:
                while not found:
                    text = read()
                    found = re.search(row.replace("PID", pid), text)
            leaking.kill()
        rate = re.search(rf'culprit_row_bytes_per_minute\{{pid="{pid}",id="{found[1]}",kind="device",[^}}]*\}} (\S+)\n',
                         text)
        self.assertGreater(float(rate[1]), 1 << 20)
        counts = dict(re.findall(rf'culprit_rows\{{pid="{pid}",verdict="([a-z-]+)"\}} (\d+)\n', text))
        self.assertEqual(set(counts), {"leaking", "warming-up", "filling-a-cache", "saw-tooth", "steady"})
        self.assertEqual(counts["leaking"], "1", counts)
        self.assertEqual(sum(map(int, counts.values())), text.count("culprit_row_verdict{"))
        self.assertGreaterEqual(int(re.search(r"culprit_watched_looks\S+ (\d+)", text)[1]), 24)
        self.assertIn(f'culprit_rows_left_out{{pid="{pid}"}} 0\n', text)
        if PROMTOOL:
            done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True,
                                  check=False, timeout=LONGEST_SECONDS)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_the_inside_of_a_cache(self):
        environment = {**ENVIRONMENT, "LD_PRELOAD": str(BUILD / "lib/libculprit.so"), "CULPRIT_QUIET": "1",
                       "CULPRIT_OUT": str(self.folder / "cached.dump")}
        with subprocess.Popen([subject("cached_tensors"), subject("libc10_cuda.so"), "teeth", "60000"], text=True,
                              env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as program_:
            self.assertEqual(program_.stdout.readline(), "ready\n")
            text = run(str(program_.pid)).stdout
            program_.kill()
        parts = dict(re.findall(rf'culprit_cache_inside_bytes\{{pid="{program_.pid}",device="0",part="(\w+)"\}} (\d+)',
                                text))
        self.assertEqual(set(parts), {"live", "idle", "scattered"})
        self.assertEqual(int(parts["live"]) + int(parts["idle"]), 1 << 30)
        self.assertGreater(int(parts["live"]), 0)

    def test_examples_name_metrics_that_exist(self):
        known = set(re.findall(r"^# TYPE (\w+) ", run().stdout, re.MULTILINE))
        with self.written_again_and_again(self.pid) as read:
            while "culprit_row_verdict" not in (text := read()):
                pass
        known |= set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE)) | {"culprit_row_objects_per_minute"}
        known |= {"culprit_cached_bytes", "culprit_cached_segments", "culprit_charged_bytes"}
        dashboard = json.loads((EXAMPLES / "dashboard.json").read_text(encoding="utf-8"))
        texts = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", [])]
        self.assertGreater(len(texts), 5)
        if PROMTOOL:
            self.check_queries(texts)
        texts.append((EXAMPLES / "alerts.yml").read_text(encoding="utf-8"))
        for text in texts:
            used = set(re.findall(r"\bculprit_\w+", text))
            self.assertTrue(used)
            self.assertLessEqual(used, known)

    def check_queries(self, queries):
        """That Prometheus can parse the queries of the dashboard: as rules."""
        rules = [{"record": "x", "expr": query.replace("$__rate_interval", "5m")} for query in queries]
        path = self.folder / "rules.json"  # YAML, too
        path.write_text(json.dumps({"groups": [{"name": "x", "rules": rules}]}), encoding="utf-8")
        done = subprocess.run([PROMTOOL, "check", "rules", path], capture_output=True, text=True, check=False,
                              timeout=LONGEST_SECONDS)
        path.unlink()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_textfile_is_whole_at_each_moment(self):
        path = self.folder / "culprit.prom"
        with subprocess.Popen([CULPRIT, "metrics", self.pid, "--textfile", path, "--every", "20ms"], env=ENVIRONMENT,
                              stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as writer:
            end = time.monotonic() + LONGEST_SECONDS
            versions = set()
            while len(versions) < 10 and time.monotonic() < end:
                with contextlib.suppress(FileNotFoundError):
                    text = path.read_text(encoding="utf-8")
                    self.assertTrue(text.startswith("# HELP culprit_processes "))
                    self.assertRegex(text, r"culprit_not_recorded_events_total\{[^}]*\} 0\n\Z")
                    versions.add(path.stat().st_ino)
            writer.terminate()
        self.assertGreaterEqual(len(versions), 2)  # numbers of files are used again
        # Nothing stays beside it but a file that the signal interrupted.
        self.assertEqual({name.suffix for name in self.folder.iterdir() if "culprit.prom." not in name.name},
                         {".dump", ".prom"})

    def test_formats_and_other_requests(self):
        with Served(self.pid) as served:
            kind, text = served.get()
            self.assertEqual(kind, "text/plain; version=0.0.4; charset=utf-8")
            self.check_text(text)
            kind, text = served.get("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
            self.assertEqual(kind, "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.check_text(text)
            self.assertTrue(text.endswith("\n# EOF\n"))
            for line in ("GET / HTTP/1.1", "GET /metrics/ HTTP/1.1", "GET /metrics/../etc/passwd HTTP/1.1",
                         "GET /%6detrics HTTP/1.1", "HEAD /metrics HTTP/1.1", "POST /metrics HTTP/1.1",
                         "PUT /metrics HTTP/1.1", "DELETE /metrics HTTP/1.1", "OPTIONS /metrics HTTP/1.1",
                         "PROPFIND / HTTP/1.1"):
                answer = served.send(line.encode() + b"\r\nHost: a\r\nOrigin: b\r\n"
                                                     b"Access-Control-Request-Method: GET\r\n\r\n")
                self.assertRegex(answer, rb"^HTTP/1.1 404 ", line)
            head = served.send(b"HEAD /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            self.assertTrue(head.endswith(b"\r\n\r\n"), head)
            # The body of a request is not read.
            answer = served.send(b"GET /metrics?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 999999999999\r\n\r\n")
            self.assertRegex(answer, rb"^HTTP/1.1 200 ")

    def test_it_listens_where_it_is_told(self):
        with Served(self.pid) as served:
            listening = pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")
            self.assertIn(f" 0100007F:{served.port:04X} 00000000:0000 0A ", listening)
            done = run("--listen", f"127.0.0.1:{served.port}", self.pid)
            self.assertEqual(done.returncode, 3)
            self.assertIn("cannot listen on 127.0.0.1:", done.stderr)

    @unittest.skipUnless(PROMETHEUS, "Prometheus is not installed")
    def test_prometheus_scrapes_it(self):
        """Prometheus asks for OpenMetrics, and reads it by a stricter parser than promtool's."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with Served(self.pid) as served, tempfile.TemporaryDirectory(prefix="prometheus-") as folder:
            (pathlib.Path(folder) / "prometheus.yml").write_text(json.dumps({
                "global": {"scrape_interval": "1s"}, "rule_files": [str(EXAMPLES / "alerts.yml")],
                "scrape_configs": [{"job_name": "culprit", "static_configs": [
                    {"targets": [f"127.0.0.1:{served.port}"]}]}]}), encoding="utf-8")
            with subprocess.Popen([PROMETHEUS, f"--config.file={folder}/prometheus.yml",
                                   f"--storage.tsdb.path={folder}", f"--web.listen-address=127.0.0.1:{port}"],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL) as prometheus:
                end = time.monotonic() + LONGEST_SECONDS
                values = []
                while not values and time.monotonic() < end:
                    time.sleep(0.2)
                    with contextlib.suppress(OSError), urllib.request.urlopen(
                            f"http://127.0.0.1:{port}/api/v1/query?query=culprit_live_bytes", timeout=5) as answer:
                        values = [one["value"][1] for one in json.load(answer)["data"]["result"]]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/targets", timeout=5) as answer:
                    target = json.load(answer)["data"]["activeTargets"][0]
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/metadata?metric=culprit_frees",
                                            timeout=5) as answer:
                    metadata = json.load(answer)["data"]
                prometheus.terminate()
        self.assertEqual(values, ["11001"], target)
        self.assertEqual(target["lastError"], "")
        self.assertEqual(metadata["culprit_frees"][0]["type"], "counter")  # OpenMetrics: without "_total"

    def test_thousands_of_requests_cost_little(self):
        with Served(self.pid) as served:
            served.get()
            before = served.facts()
            with concurrent.futures.ThreadPoolExecutor(16) as pool:
                for _, text in pool.map(lambda _: served.get(), range(4000)):
                    self.check_text(text)
            after = served.facts()
            self.assertLess(after["VmHWM"], before["VmRSS"] + (16 << 10))
            self.assertLessEqual(after["files"], before["files"] + 2)
            self.assertLess(after["Threads"], 50)

    def test_garbage(self):
        numbers = random.Random(7)
        with Served(self.pid) as served:
            served.get()
            before = served.facts()
            heads = [b"", b"\0", b"\r\n" * 5000, b"GET", b"GET /metrics", b"GET /metrics HTTP/9.9\r\n\r\n",
                     b"GET * HTTP/1.1\r\n\r\n", b"OPTIONS * HTTP/1.1\r\n\r\n", b"GET http://[::1 HTTP/1.1\r\n\r\n",
                     b"GET http://127.0.0.1/metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
                     b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\n\r\n",
                     b"GET /metrics HTTP/1.1\r\n" + b"a: b\r\n" * 20000,
                     b"GET /metrics HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n",
                     b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                     b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: a\r\n\r\n"]
            bodies = [bytes(numbers.randrange(256) for _ in range(numbers.randrange(2000))) for _ in range(200)]
            for data in heads + bodies + [b"GET /metrics HTTP/1.1\r\n" + body + b"\r\n\r\n" for body in bodies]:
                served.send(data)
            self.check_text(served.get()[1])
            self.assertLess(served.facts()["VmHWM"], before["VmRSS"] + (16 << 10))

    def test_slow_clients(self):
        with Served(self.pid) as served, contextlib.ExitStack() as clients:
            served.get()
            # Each sends a byte now and then, and never a whole request; or it does not read the answer.
            slow = [clients.enter_context(served.connect()) for _ in range(150)]
            for client in slow[::3]:
                client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            begin = time.monotonic()
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                answer = pool.submit(served.get)
                while not answer.done():
                    for client in slow[1::3]:
                        with contextlib.suppress(OSError):
                            client.send(b"G")
                    time.sleep(0.1)
                self.check_text(answer.result()[1])
            # 32 at a time for 2 seconds each: the 100 without a request are through after 8.
            self.assertLess(time.monotonic() - begin, 20)
            self.assertLess(served.facts()["Threads"], 50)
            with contextlib.suppress(ConnectionError):
                while slow[1].recv(4096):  # an error, and the end
                    pass
            self.check_text(served.get()[1])

    def test_a_process_that_ends(self):
        with tempfile.TemporaryDirectory(prefix="metrics-") as folder:
            with program(folder) as running:
                pid = running.pid
                served = Served()
                with_it = served.get()[1]
            with served:
                self.assertIn(f'pid="{pid}"', with_it)
                time.sleep(3)
                text = served.get()[1]
                self.assertNotIn(f'pid="{pid}"', text)
                self.check_text(text)


if __name__ == "__main__":
    unittest.main()
