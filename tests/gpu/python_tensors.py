#!/usr/bin/env python3
"""`culprit tensors PID`: programs with a framework that run, under the library and without it, are asked several times.
The right keepers grow, they add up, the program goes on with the same result, and a thread that measures the time
between two of its turns is not stopped for long."""
import json
import os
import subprocess
import sys
import tempfile

from preloaded import CULPRIT, FAIL, LIBRARY, PACKAGE, PASS, SKIP, finish, installed, row

ASKED = 5
HEAD = """
import os, sys, threading, time
def ready(): print("ready", flush=True)
going, longest = True, 0.0
def beat():
    global longest
    last = time.monotonic()
    while going:
        time.sleep(0.001)
        now = time.monotonic()
        longest, last = max(longest, now - last), now
heart = threading.Thread(target=beat)
orders = []
def listen():
    for _ in range(2): orders.append(sys.stdin.buffer.raw.read(1))
threading.Thread(target=listen).start()
"""
END = """
going = False
heart.join()
print("end", check, round(longest * 1000), flush=True)
"""
TORCH = HEAD + """
import torch
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1024)).cuda()
optimizer = torch.optim.Adam(net.parameters())
x = torch.randn(2048, 1024, device="cuda")
class Trainer: pass
trainer = Trainer()
trainer.history = []
heart.start()
rounds = 0
while len(orders) < 2:
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    rounds += 1
    if rounds >= 20 and len(trainer.history) < (4 if orders else 2):
        trainer.history.append(net(x).square().mean())
        check = len(trainer.history)
        if check == 2: ready()
del loss
""" + END
JAX = HEAD + """
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import jax, jax.numpy as jnp
step = jax.jit(lambda p, x: p + 0.001 * jnp.sin(x))
params = jnp.zeros((1024, 1024)); history = []
x = jnp.ones((1024, 1024))
heart.start()
rounds = 0
while len(orders) < 2:
    params = step(params, x)
    rounds += 1
    if rounds >= 20 and len(history) < (6 if orders else 3):
        history.append(jnp.full((2048, 1024), 1.0).block_until_ready())
        check = len(history)
        if check == 3: ready()
params.block_until_ready()
""" + END
CUPY = HEAD + """
import cupy
history = []
x = cupy.ones((1024, 1024))
heart.start()
rounds = 0
while len(orders) < 2:
    y = x * 2
    rounds += 1
    if rounds >= 20 and len(history) < (6 if orders else 3):
        history.append(cupy.zeros((1024, 1024)))
        check = len(history)
        if check == 3: ready()
""" + END
MIB = 1 << 20
# Framework, program, pool, the keeper that grows, by so many bytes.
PROGRAMS = [
    ("torch", TORCH, "PyTorch caching allocator", ("autograd", "trainer.history"), None),
    ("jax", JAX, "XLA BFC allocator", ("variable", "history"), 24 * MIB),
    ("cupy", CUPY, "CuPy memory pool", ("variable", "history"), 24 * MIB),
]
INSIDE = """
import culprit, torch
losses = [torch.zeros(1 << 20, device="cuda") for _ in range(2)]
before = culprit.tensors()
losses += [torch.zeros(1 << 20, device="cuda") for _ in range(3)]
now = culprit.tensors(since=before)
print([(one.path, one.grown) for one in now], now.live_bytes >> 20)
batch = torch.zeros(1 << 20, pin_memory=True)
print([(one.path, one.bytes) for one in culprit.tensors() if one.pool == "other arrays and pointers"])
"""


def ask(pid, *options):
    done = subprocess.run([CULPRIT, "tensors", str(pid), "--format", "json", "--timeout", "20s", "--longest-stop", "1s",
                           *options], capture_output=True, text=True, timeout=120, check=False,
                          env=dict(os.environ, CULPRIT_LIBRARY=str(LIBRARY)))
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-500:])
    return done.stdout, done.stderr.strip().splitlines()[-1]


def check(text, pool, wanted, grows, preload):
    """The detail of a row. Raises RuntimeError when something is wrong."""
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as folder:
        environment = dict(os.environ)
        if preload:
            environment.update(LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{folder}/%p.dump", CULPRIT_QUIET="1")
        errors = open(f"{folder}/err", "w+", encoding="utf-8")  # noqa: SIM115
        process = subprocess.Popen([sys.executable, "-c", text], env=environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            if process.stdout.readline() != "ready\n":
                errors.seek(0)
                raise RuntimeError(f"the program did not begin: {errors.read()[-500:]}")
            before, _ = ask(process.pid)
            with open(f"{folder}/before.json", "w", encoding="utf-8") as file:
                file.write(before)
            process.stdin.write("x")
            process.stdin.flush()
            for _ in range(ASKED):
                answer, note = ask(process.pid, "--since", f"{folder}/before.json")
            out, _ = process.communicate("x", timeout=120)
        finally:
            process.kill()
            process.wait()
            errors.close()
    words = out.split()
    if process.returncode != 0 or words[:1] != ["end"]:
        raise RuntimeError(f"the program ended with {process.returncode}: {out}")
    inside, = [one for one in json.loads(answer)["dumps"][0]["caches"] if one["pool"] == pool]
    total = sum(one["bytes"] for one in inside["kept"] if one["kind"] != "pending")
    if total != inside["live_bytes"]:
        raise RuntimeError(f"keepers of {total} of {inside['live_bytes']} live bytes")
    kind, name = wanted
    grown = [one["grown_bytes"] for one in inside["grown"] if one["kind"] == kind and f"`{name}`" in one["path"]]
    if not grown or (grows is not None and abs(grown[0] - grows) > grows // 50):
        raise RuntimeError(f"{name} grew by {grown}: {json.dumps(inside['grown'])[:800]}")
    return f"grew by {grown[0] / MIB:.1f} MiB; longest turn of the beat {words[2]} ms; {note}"


for framework, program, cache, keeper, growth in PROGRAMS:
    for loaded in True, False:
        title = f"tensors of a running process: {framework}, {'preloaded' if loaded else 'attached'}"
        if not installed(framework):
            row(SKIP, title, f"{framework} is not installed")
            continue
        try:
            row(PASS, title, check(program, cache, keeper, growth, loaded))
        except Exception as error:  # pylint: disable=broad-except; any failure is a failed row
            row(FAIL, title, error)
if installed("torch"):
    with tempfile.TemporaryDirectory(prefix="culprit-gpu-") as place:
        ended = subprocess.run([sys.executable, "-c", INSIDE], capture_output=True, text=True, timeout=120, check=False,
                               env=dict(os.environ, LD_PRELOAD=str(LIBRARY), CULPRIT_OUT=f"{place}/%p.dump",
                                        CULPRIT_QUIET="1", PYTHONPATH=str(PACKAGE), CULPRIT_COMMAND=str(CULPRIT)))
    growth, _, pinned = ended.stdout.strip().partition("\n")
    right = growth == "[('`losses`, a list of 5', 12582912)] 20"
    row(PASS if right else FAIL, "culprit.tensors() in a program", growth + ended.stderr[-500:])
    row(PASS if pinned == "[('`batch`', 4194304)]" else FAIL, "a pinned tensor has a keeper", pinned)
finish()
