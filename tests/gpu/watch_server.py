#!/usr/bin/env python3
"""culprit watch on a PyTorch server: three threads answer requests over HTTP with a transformer.

Three servers run at the same time. Two keep 1 MiB in every twentieth request: "raw" memory of cudaMalloc, where a
minute must name that line and nothing else, and "tensor", where it must name the variable: tensors that are kept use up
the segments, so that any line may need a new one. The third server keeps nothing, and must be steady for WATCH_SECONDS
(60; 480 for the soak). The counts of PyTorch's cache must be those of PyTorch.
"""
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from preloaded import CULPRIT, FAIL, LIBRARY, PASS, SKIP, finish, installed, row

LEAKING_SECONDS = 60
STEADY_SECONDS = float(os.environ.get("WATCH_SECONDS", "60"))
CLIENTS = 3
PAUSE = 0.02  # of each client

SERVER = """
import ctypes, http.server, itertools, json, sys, threading
import torch
torch.manual_seed(1)
layer = torch.nn.TransformerEncoderLayer(d_model=512, nhead=8, batch_first=True)
model = torch.nn.TransformerEncoder(layer, num_layers=4, enable_nested_tensor=False).cuda().eval()
words = torch.nn.Embedding(32000, 512).cuda()
numbers = itertools.count(1)
history = []

runtime = ctypes.CDLL(next(line.split()[-1] for line in open("/proc/self/maps") if "/libcudart" in line))

def remember():
    if sys.argv[1] == "tensor":
        history.append(torch.empty(1 << 20, dtype=torch.uint8, device="cuda"))
    else:
        history.append(ctypes.c_void_p())
        assert runtime.cudaMalloc(ctypes.byref(history[-1]), ctypes.c_size_t(1 << 20)) == 0

def answer(length):
    with torch.inference_mode():
        text = torch.randint(0, 32000, (1, length), device="cuda")
        return float(model(words(text)).mean().item())

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/counts":
            text = json.dumps([torch.cuda.memory_allocated(), torch.cuda.memory_reserved()])
        else:
            text = str(answer(int(self.path[1:])))
            if next(numbers) % 20 == 0 and sys.argv[1] != "steady":
                remember()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())
    def log_message(self, *_):
        pass

for length in (16, 1024, 333):
    answer(length)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


class Server:
    """A server under the library with clients of its own, until stop()."""

    def __init__(self, what, folder):
        dumps = Path(folder) / what
        dumps.mkdir()
        environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{dumps}/%p.dump", CULPRIT_QUIET="1")
        self.program = subprocess.Popen([sys.executable, "-c", SERVER, what], env=environment, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        port = self.program.stdout.readline().strip()
        if not port:
            raise RuntimeError(f"no server: {self.program.stderr.read()[-500:]}")
        self.address = f"http://127.0.0.1:{port}/"
        self.over, self.answers, self.problems = threading.Event(), 0, []
        self.clients = [threading.Thread(target=self._ask, args=(number,), daemon=True) for number in range(CLIENTS)]
        for client in self.clients:
            client.start()

    def get(self, path):
        with urllib.request.urlopen(self.address + path, timeout=30) as response:
            return response.read().decode()

    def _ask(self, number):
        while not self.over.is_set():
            number = (number * 1103515245 + 12345) % (1 << 31)
            try:
                self.get(str(16 + number % 1000))
                self.answers += 1
            except OSError as error:
                self.problems.append(str(error))
            time.sleep(PAUSE)

    def watch(self, seconds, *options):
        """The verdict of culprit watch, its exit code, and PyTorch's own counts at its end."""
        command = [CULPRIT, "watch", str(self.program.pid), "--for", f"{seconds}s", "--format", "json", *options]
        done = subprocess.run(command, env=dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY)), capture_output=True,
                              text=True, timeout=seconds + 60, check=False)
        counts = json.loads(self.get("counts"))
        if not done.stdout:
            raise RuntimeError(f"exit code {done.returncode}: {done.stderr[-500:]}")
        return json.loads(done.stdout), done.returncode, counts

    def stop(self):
        self.over.set()
        for client in self.clients:
            client.join()
        self.program.kill()
        self.program.wait()


def of_cache(result, kind):
    return next((one for one in result["rows"] if one["kind"] == kind), None)


def describe(result):
    def lines(one):
        return [frame["function"] for frame in one["stack"] if frame["language"] == "python"][:2]

    return [(one["verdict"], one["kind"], one["bytes"], one["bytes_per_minute"], one["confidence"], lines(one))
            for one in result["rows"] if one["verdict"] != "steady"]


def goes_through(one, function):
    return any(frame["function"] == function for frame in one["stack"])


def check_counts(name, result, counts):
    """PyTorch counted a moment later, while requests go on."""
    live, idle = of_cache(result, "cache-live"), of_cache(result, "cache-idle")
    if live is None or idle is None:
        row(FAIL, name, "no rows of the cache")
        return
    difference = live["bytes"] + idle["bytes"] - counts[1]
    same = abs(live["bytes"] - counts[0]) <= 64 << 20 and abs(difference) <= 64 << 20
    row(PASS if same else FAIL, name,
        f"live {live['bytes'] >> 20} MiB, PyTorch {counts[0] >> 20}; segments differ by {difference >> 20} MiB")


def check_leak(server, what):
    result, code, counts = server.watch(LEAKING_SECONDS, *(["--tensors"] if what == "tensor" else []))
    leaking = [one for one in result["rows"] if one["verdict"] == "leaking"]
    lines = [one for one in leaking if one["kind"] != "cache-live"]
    others = [one for one in lines if not goes_through(one, "remember")]
    kept = [(one["path"], one["grown_bytes"] >> 20) for one in result["processes"][0].get("grown", [])][:3]
    if what == "raw":
        right = lines and not others and len(leaking) == len(lines)
    else:
        right = of_cache(result, "cache-live") in leaking and kept and kept[0][0].startswith("`history`")
    row(PASS if right and code == 1 else FAIL, f"watch names the leak within {LEAKING_SECONDS} s, {what}",
        f"exit code {code}, {server.answers} answers, {describe(result)} {kept}")
    check_counts(f"watch reads PyTorch's counts, {what}", result, counts)


def check_steady(server):
    result, code, counts = server.watch(STEADY_SECONDS)
    row(PASS if code == 0 and result["verdict"] == "steady" else FAIL,
        f"watch calls the server steady for {STEADY_SECONDS:.0f} s",
        f"exit code {code}, {server.answers} answers, {describe(result)}")
    check_counts("watch reads PyTorch's counts, steady server", result, counts)


def main():
    if not installed("torch"):
        row(SKIP, "watch on a PyTorch server", "torch is not installed")
        return
    with tempfile.TemporaryDirectory(prefix="culprit-watch-") as folder, ThreadPoolExecutor(3) as pool:
        servers = []
        try:
            servers = list(pool.map(lambda what: Server(what, folder), ["raw", "tensor", "steady"]))
            checks = [pool.submit(check_leak, servers[0], "raw"), pool.submit(check_leak, servers[1], "tensor"),
                      pool.submit(check_steady, servers[2])]
            for check in checks:
                check.result()
            for server in servers:
                if server.problems:
                    row(FAIL, "the servers answer", server.problems[0])
        except (RuntimeError, OSError, subprocess.SubprocessError) as error:
            row(FAIL, "watch on a PyTorch server", error)
        for server in servers:
            server.stop()


main()
finish()
