#!/usr/bin/env python3
"""The recipes of examples/servers, as far as they can be tried without their runtimes: servers_test.py SOURCE BUILD

gunicorn and uvicorn come from PyPI (scripts/python-tools.sh), and run. A container is what its runtime makes of it:
name spaces, and the capabilities that Docker gives. Units, manifests and the Compose file are checked by
systemd-analyze and the schemas. Stand-ins for srun and tritonserver start the programs that those would start.
"""
import contextlib
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

from build_tree import BUILD, ENVIRONMENT, SOURCE, subject

EXAMPLES = SOURCE.resolve() / "examples/servers"
APPLICATION = SOURCE.resolve() / "tests/process/manual"
TOOLS = SOURCE.resolve() / "build/deps/python-tools/servers"
SCHEMAS = SOURCE.resolve() / "build/deps/format-readers"
CULPRIT = str((BUILD / "bin/culprit").resolve())
LIBRARY = str((BUILD / "lib/libculprit.so").resolve())
CUDA = str((BUILD / "simcuda").resolve())
LONGEST_SECONDS = 60
# Those that Docker gives to a container by default (moby, oci/caps/defaults.go).
DOCKER = ("chown dac_override fsetid fowner mknod net_raw setgid setuid setfcap setpcap net_bind_service sys_chroot "
          "kill audit_write").split()
IS_ROOT = os.geteuid() == 0


def run(*words, cwd=None, **more):
    environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": CUDA, **more}
    return subprocess.run([str(word) for word in words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LONGEST_SECONDS, check=False)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="culprit-servers-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def wait_for(self, condition, process=None):
        end = time.monotonic() + LONGEST_SECONDS
        while not (found := condition()):
            self.assertLess(time.monotonic(), end)
            self.assertTrue(process is None or process.poll() is None)
            time.sleep(0.05)
        return found

    def leaks(self, dump):
        done = run(CULPRIT, "report", "--format", "json", dump)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


@unittest.skipUnless(TOOLS.exists(), "no gunicorn and uvicorn: scripts/python-tools.sh")
class WebServersTest(Case):
    @contextlib.contextmanager
    def served(self, *words):
        self.port = free_port()
        environment = {**ENVIRONMENT, "LD_LIBRARY_PATH": CUDA, "CUDART": CUDA + "/libcudart.so.13",
                       "PYTHONPATH": f"{TOOLS}:{APPLICATION}", "CULPRIT_QUIET": "1"}
        with open(self.folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                [CULPRIT, "run", "--out", "dumps/%n.%p.dump", "--", sys.executable, "-m",
                 *(word.replace("PORT", str(self.port)) for word in words)],
                cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as server:
            yield server
            server.send_signal(signal.SIGTERM)
            server.wait(LONGEST_SECONDS)

    def ask(self):
        """The worker that answered; None: the server is not there yet."""
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/",
                                                                  timeout=LONGEST_SECONDS) as answer:
            return answer.read().decode()

    def workers(self, server):
        """Asks until two workers have answered."""
        seen = set()

        def asked():
            seen.add(self.ask())
            return len(seen - {None}) == 2
        self.wait_for(asked, server)
        return seen - {None}

    def check_dumps(self, pids):
        """Each worker has a dump, with the line that leaks, and no other process has one."""
        dumps = list((self.folder / "dumps").glob("*.dump"))
        self.assertEqual({path.name.split(".")[-2] for path in dumps}, set(pids), dumps)
        for path in dumps:
            leaks = self.leaks(path)["leaks"]
            self.assertEqual(len(leaks), 1)
            self.assertIn("device_buffer", {frame["function"] for frame in leaks[0]["stack"]})

    def test_gunicorn(self):
        with self.served("gunicorn", "-c", str(EXAMPLES / "gunicorn_conf.py"), "-b", "127.0.0.1:PORT",
                         "gpu_app:app") as server:
            pids = self.workers(server)
            done = run(CULPRIT, "top", "--once", next(iter(pids)))
            self.assertIn("gpu_app.py", done.stdout, done.stderr)
            # A worker that is replaced: the new one has a dump of its own.
            os.kill(int(next(iter(pids))), signal.SIGTERM)
            log = self.folder / "log"
            self.wait_for(lambda: "has ended: culprit report dumps/" in log.read_text(encoding="utf-8"), server)
            self.wait_for(lambda: self.ask() not in {None, *pids}, server)
        dumps = list((self.folder / "dumps").glob("*.dump"))
        self.assertGreaterEqual(len(dumps), 3)
        self.assertLessEqual(len(dumps), 4)  # the workers that did not answer may be new ones
        self.assertLess(pids, {path.name.split(".")[-2] for path in dumps})
        self.check_dumps({path.name.split(".")[-2] for path in dumps})

    def test_uvicorn(self):
        with self.served("uvicorn", "--workers", "2", "--port", "PORT", "gpu_app:asgi") as server:
            pids = self.workers(server)
        self.check_dumps(pids)

    def test_dumps_of_old_workers_are_removed(self):
        (self.folder / "dumps").mkdir()
        for number in range(25):
            old = self.folder / f"dumps/old.{number}.dump"
            old.touch()
            os.utime(old, (number, number))
        done = run(sys.executable, "-c", "import gunicorn_conf; gunicorn_conf.on_starting(None)", cwd=self.folder,
                   PYTHONPATH=str(EXAMPLES))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual({path.name for path in (self.folder / "dumps").iterdir()},
                         {f"old.{number}.dump" for number in range(5, 25)})


RAY_PROGRAM = """
import ray, ray_actor
ENVIRONMENT = dict(ray_actor.UNDER_CULPRIT["env_vars"], CULPRIT_OUT=OUT)
@ray.remote(num_gpus=1, runtime_env={"env_vars": ENVIRONMENT})
class Leaking:
    def __init__(self, name):
        import culprit
        culprit.mark(name)
    def work(self):
        import os, gpu_app
        gpu_app.device_buffer(1 << 20)
        return os.getpid()
ray.init(num_gpus=2, include_dashboard=False, log_to_driver=False)
engine = ray_actor.Engine.remote("engine-0")
print(ray.get(engine.pid.remote()))
leaking = [Leaking.remote("engine-1")]
print(ray.get(leaking[0].work.remote()))
"""


@unittest.skipUnless(importlib.util.find_spec("ray"), "no Ray: pip install ray==2.60.0")
class RayTest(Case):
    def test_an_actor_has_a_dump_and_a_mark(self):
        """The actors' processes alone: neither the driver of the cluster nor its daemons."""
        out = str(self.folder / "%p.dump")
        done = run(sys.executable, "-c", f"OUT = {out!r}\n" + RAY_PROGRAM, cwd=self.folder, CULPRIT_LIBRARY=LIBRARY,
                   CUDART=CUDA + "/libcudart.so.13", RAY_USAGE_STATS_ENABLED="0",
                   PYTHONPATH=f"{APPLICATION}:{EXAMPLES}:{SOURCE.resolve() / 'interpose/python_package'}")
        self.assertEqual(done.returncode, 0, done.stderr)
        _, leaking = done.stdout.split()
        dump, = self.folder.glob("*.dump")
        self.assertEqual(dump.name, leaking + ".dump")
        report = self.leaks(dump)
        leak, = report["leaks"]
        self.assertIn("device_buffer", {frame["function"] for frame in leak["stack"]})
        self.assertEqual([mark["name"] for mark in report["marks"]], ["engine-1"])
        self.assertIn("LEAKED 1.00 MiB", run(CULPRIT, "report", "--since-mark", "engine-1", dump).stdout)


@unittest.skipUnless(IS_ROOT and run("unshare", "--mount", "--pid", "--fork", "true").returncode == 0,
                     "no name spaces here")
class ContainersTest(Case):
    """Processes in the name spaces, and with the capabilities, that a runtime gives them."""

    def limited(self, *more):
        return ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in (*DOCKER, *more))]), "--"]

    @contextlib.contextmanager
    def container(self, preload):
        """A server in a container; gives its number on this machine. /dumps is its own."""
        variables = ["LD_LIBRARY_PATH=" + CUDA, "CULPRIT_QUIET=1", "CULPRIT_OUT=/dumps/%n.%p.dump"]
        if preload:
            variables.append("LD_PRELOAD=" + LIBRARY)
        (self.folder / "dumps").mkdir(exist_ok=True)
        program = ["env", *variables, subject("end_how"), "live"]
        inside = f"mount -t tmpfs none /mnt && mount -t proc proc /proc && mkdir -p /dumps && " \
                 f"mount --bind {self.folder}/dumps /dumps && exec " + " ".join([*self.limited(), *program])
        with subprocess.Popen(["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "sh", "-c", inside],
                              env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
            self.assertEqual(running.stdout.readline(), "ready\n")
            children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii")
            yield children.split()[0]
            running.stdin.close()
            running.wait(LONGEST_SECONDS)
            running.stdout.close()

    def test_preloaded_by_image_or_variable(self):
        with self.container(preload=True) as pid:
            # On the host, as root.
            done = run(CULPRIT, "top", "--once", pid)
            self.assertIn("leak_here", done.stdout, done.stderr)
            metrics = run(CULPRIT, "metrics", pid)
            self.assertIn('function="leak_here"', metrics.stdout, metrics.stderr)
            # The service that has these two capabilities alone (culprit-metrics.service).
            unit = (EXAMPLES / "culprit-metrics.service").read_text(encoding="ascii")
            names = re.search(r"^CapabilityBoundingSet=(.*)$", unit, re.MULTILINE)[1].lower().split()
            few = run("setpriv", "--bounding-set", ",".join(["-all", *("+" + name[4:] for name in names)]), "--",
                      CULPRIT, "metrics", pid)
            self.assertIn('function="leak_here"', few.stdout, few.stderr)
            # Inside, by nsenter.
            done = run("nsenter", "-t", pid, "-m", "-p", *self.limited("sys_ptrace"), CULPRIT, "top", "--once", "1")
            self.assertIn("leak_here", done.stdout, done.stderr)
        dump, = (self.folder / "dumps").iterdir()
        self.assertEqual(dump.name, "end_how.1.dump")
        self.assertEqual([leak["bytes"] for leak in self.leaks(dump)["leaks"]], [11001])

    def test_attached_from_the_host_and_from_an_ephemeral_container(self):
        with self.container(preload=False) as pid:
            # An ephemeral container has the processes of its target, and a file system of its own. With fewer
            # capabilities than the target, and without SYS_PTRACE, the attach is refused.
            beside = ["nsenter", "-t", pid, "-p", "unshare", "--mount", "sh", "-c",
                      'mount -t proc proc /proc && exec "$@"', "sh"]
            refused = run(*beside, "setpriv", "--bounding-set", "-all", "--", CULPRIT, "attach", "1")
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn("SYS_PTRACE", refused.stdout + refused.stderr)
            done = run(*beside, *self.limited("sys_ptrace"), CULPRIT, "attach", "1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("attached to end_how [1]", done.stdout + done.stderr)
            done = run(*beside, *self.limited("sys_ptrace"), CULPRIT, "detach", "1")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            done = run(CULPRIT, "attach", pid)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(run(CULPRIT, "detach", pid).returncode, 0)


class FilesTest(Case):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd")
    def test_units(self):
        units = self.folder / "units"
        (units / "server.service.d").mkdir(parents=True)
        (units / "server.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="ascii")
        shutil.copy(EXAMPLES / "culprit-preload.conf", units / "server.service.d/culprit.conf")
        metrics = (EXAMPLES / "culprit-metrics.service").read_text(encoding="ascii")
        self.assertIn("ExecStart=/usr/bin/culprit metrics --listen 127.0.0.1:9400\n", metrics)
        metrics = re.sub("Documentation=.*", "", metrics.replace("/usr/bin/culprit", "/bin/true"))
        (units / "culprit-metrics.service").write_text(metrics, encoding="ascii")
        done = run("systemd-analyze", "verify", "server.service", "culprit-metrics.service",
                   SYSTEMD_UNIT_PATH=f"{units}:", SYSTEMD_LOG_LEVEL="warning")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        # That systemd-analyze reads these files, and complains.
        broken = units / "server.service.d/culprit.conf"
        broken.write_text(broken.read_text(encoding="ascii") + "LogDirectory=x\n", encoding="ascii")
        done = run("systemd-analyze", "verify", "server.service", SYSTEMD_UNIT_PATH=f"{units}:")
        self.assertIn("LogDirectory", done.stderr)
        root = self.folder / "root"
        root.mkdir()
        done = run("systemd-tmpfiles", f"--root={root}", "--create", EXAMPLES / "culprit-tmpfiles.conf")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue((root / "var/log/culprit").is_dir())

    @unittest.skipUnless(TOOLS.exists(), "no kubernetes-validate: scripts/python-tools.sh")
    def test_manifests(self):
        def validated(*files):
            return run(sys.executable, "-m", "kubernetes_validate", "--strict", *files, PYTHONPATH=str(TOOLS))
        done = validated(EXAMPLES / "preload.yaml")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        # What `kubectl debug --custom` makes of the profile.
        profile = (EXAMPLES / "debug-profile.yaml").read_text(encoding="ascii")
        lines = [line for line in profile.splitlines() if not line.startswith("#")]
        pod = (EXAMPLES / "preload.yaml").read_text(encoding="ascii") + "  ephemeralContainers:\n" \
            "    - name: debugger\n      image: culprit\n      targetContainerName: server\n" + \
            "".join(f"      {line}\n" for line in lines)
        path = self.folder / "pod.yaml"
        path.write_text(pod, encoding="ascii")
        done = validated(path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        path.write_text(pod.replace("capabilities:", "capabilitys:"), encoding="ascii")
        self.assertNotEqual(validated(path).returncode, 0)

    @unittest.skipUnless((SCHEMAS / "complete").exists(), "no check-jsonschema: scripts/format-readers.sh")
    def test_compose(self):
        done = run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec",
                   EXAMPLES / "compose.yml", PYTHONPATH=str(SCHEMAS))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def stand_in(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="ascii")
        path.chmod(0o755)
        return f"{path.parent}:{BUILD.resolve() / 'bin'}:{ENVIRONMENT['PATH']}"

    def test_slurm_script(self):
        path = self.stand_in("srun", '#!/bin/bash\nshift\n'
                                     'for i in 0 1; do SLURM_PROCID=$i SLURM_NTASKS=2 "$@" & done\nwait\n')
        old = self.folder / "culprit.7"
        old.mkdir()
        os.utime(old, (0, 0))
        done = run(EXAMPLES / "slurm.sh", subject("rank_leak"), cwd=self.folder, PATH=path, SLURM_JOB_ID="42")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(old.exists())
        self.assertTrue((self.folder / "culprit.42/report.html").is_file())
        dumps = list((self.folder / "culprit.42").glob("*.dump"))
        self.assertEqual({path.name.split(".")[0] for path in dumps}, {"rank0", "rank1"})
        for dump in dumps:
            self.assertEqual([leak["bytes"] for leak in self.leaks(dump)["leaks"]], [1000])

    def test_triton_script(self):
        path = self.stand_in("tritonserver", f'#!/bin/bash\necho "$@"\nexec {subject("end_how")} exit\n')
        dumps = self.folder / "dumps"
        dumps.mkdir()
        (dumps / "old.dump").touch()
        os.utime(dumps / "old.dump", (0, 0))
        (self.folder / "lib").symlink_to(pathlib.Path(LIBRARY).parent)
        done = run(EXAMPLES / "triton.sh", "/models", "--http-port", "8000", PATH=path, CULPRIT=str(self.folder),
                   CULPRIT_DUMPS=str(dumps))
        self.assertIn("--model-repository /models --http-port 8000\n", done.stdout)
        dump, = dumps.iterdir()
        self.assertRegex(dump.name, r"^end_how\.\d+\.dump$")
        self.assertEqual(len(self.leaks(dump)["leaks"]), 1)


if __name__ == "__main__":
    unittest.main()
