"""Describes the machine of a benchmark, and finds other tools to compare with."""
import datetime
import glob
import importlib.util
import os
import platform
import shutil
import site
import subprocess
import sys
import time
from pathlib import Path


def output_of(*command, cwd=None):
    """First line of a command's output, "" when it cannot run or fails."""
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, cwd=cwd,
                                check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip().split("\n")[0]


def gpu_count():
    try:
        return len(subprocess.run(["nvidia-smi", "-L"], capture_output=True, check=True).stdout.splitlines())
    except (OSError, subprocess.SubprocessError):
        return 0


def revision(tree):
    """The git revision that the tree was built from: of the source tree, or as the package has it written down."""
    written = Path(tree) / "REVISION"
    if written.is_file():
        return written.read_text(encoding="utf-8").strip()
    here = Path(__file__).resolve().parent
    found = output_of("git", "rev-parse", "HEAD", cwd=here)
    return found + ("-dirty" if found and output_of("git", "status", "--porcelain", cwd=here) else "")


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.machine()


def describe(tree):
    gpu = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader").split(", ")
    release = platform.freedesktop_os_release() if hasattr(platform, "freedesktop_os_release") else {}
    system = release.get("PRETTY_NAME", "")
    return {"host": platform.node(), "processor": processor(), "cores": len(os.sched_getaffinity(0)),
            "kernel": platform.release(), "system": system,
            "python": platform.python_version(), "gpu": gpu[0] if gpu[0] else None,
            "driver": gpu[1] if len(gpu) > 1 else None,
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "revision": revision(tree)}


def in_words(machine):
    gpu = f"{machine['gpu']}, driver {machine['driver']}" if machine["gpu"] else "no GPU"
    return (f"{gpu}, {machine['processor']}, {machine['cores']} cores, {machine['system']}, {machine['date'][:10]}, "
            f"{machine['revision'][:10]}")


def find_tool(name):
    return shutil.which(name) or shutil.which(name, path="/usr/local/cuda/bin")


def find_cupti():
    """The newest libcupti.so of the machine, None without one."""
    folders = ["/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/targets/*/lib"]
    for packages in {*site.getsitepackages(), *sys.path}:
        folders.append(os.path.join(packages, "nvidia/*/lib"))
    found = [path for folder in folders for path in glob.glob(os.path.join(folder, "libcupti.so*"))]
    ordered = sorted(found, key=lambda path: [int(part) for part in path.rsplit(".so", 1)[1].split(".")
                                              if part.isdigit()])
    return ordered[-1] if ordered else None


def has_module(name, python=sys.executable):
    if python != sys.executable:
        return subprocess.run([python, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0
    return importlib.util.find_spec(name) is not None


def fastest_processors(count):
    """The processors that count fastest at this moment: on a shared host others may be half as fast, for seconds,
    because of a neighbour."""
    allowed = os.sched_getaffinity(0)
    times = {}
    for processor in sorted(allowed):
        os.sched_setaffinity(0, {processor})
        times[processor] = min(time_of_counting() for _ in range(3))
    os.sched_setaffinity(0, allowed)
    return set(sorted(times, key=times.get)[:count])


def time_of_counting():
    begin = time.perf_counter_ns()
    for _ in range(20000):
        pass
    return time.perf_counter_ns() - begin
