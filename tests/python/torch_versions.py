#!/usr/bin/env python3
"""The keepers of tensors in a version of PyTorch, without a GPU: torch_versions.py BUILD_FOLDER SOURCE_FOLDER PYTHON

PYTHON is an interpreter with torch. The programs of tests/gpu/keeper_programs.py run with tensors of the CPU, under
libculprit.so on the simulated driver, and end with a view in which each storage of the CPU lies in a segment of its
own. `culprit tensors` has to name the right variables with the right bytes. Prints one row; exit code 1: something
fails.
"""
import json
import os
import subprocess
import sys
import tempfile

BUILD, SOURCE = (os.path.abspath(path) for path in sys.argv[1:3])
PYTHON = sys.argv[3]
sys.path.insert(0, os.path.join(SOURCE, "tests", "gpu"))
from keeper_programs import PROGRAMS, is_row, program_head  # noqa: E402

# The view that the library takes at the end of a program, of tensors of the CPU (c10::DeviceType 0).
END = """
def _write_view():
    import ctypes, gc, json
    cuda = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.c_uint64()
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0 and cuda.cuMemAlloc_v2(ctypes.byref(pointer), 16) == 0
    ask = ctypes.PyDLL(None).culprit_api_python_view
    ask.restype = ctypes.py_object
    scope = ask()
    own = scope["own"]
    natives = scope["natives"]()
    with own._graph.without_modes(torch):
        graph = own._graph.object_graph(torch, natives, [], [], (0,))
    blocks = {}
    for thing in gc.get_objects():
        if type(thing) in (torch.Tensor, torch.nn.Parameter) and thing.layout is torch.strided:
            storage = thing.untyped_storage()
            blocks[storage.data_ptr()] = storage.nbytes()
    memory = graph.get("memory", [])
    for place in range(0, len(memory), 3):
        blocks[memory[place + 1]] = memory[place + 2]
    segments = [{"device": 0, "address": address, "bytes": size, "live_bytes": size, "largest_idle": 0,
                 "pending_bytes": 0, "private_pool": 0, "small": 0, "blocks": [{"address": address, "bytes": size}]}
                for address, size in blocks.items() if address and size]
    view = {"schema": "culprit.python/1", "pid": 1, "taken": "snapshot", "pools": [], "objects": [], "graph": graph,
            "caches": [{"framework": "torch", "version": torch.__version__, "segments": segments}]}
    with open(VIEW, "w") as file:
        json.dump(view, file)
import atexit
atexit.register(_write_view)
"""


def check(program, folder):
    """The program's problem; "" when there is none."""
    name, text, rows = program
    dump = os.path.join(folder, "view.dump")
    environment = {**os.environ, "LD_PRELOAD": os.path.join(BUILD, "lib", "libculprit.so"), "CULPRIT_QUIET": "1",
                   "CULPRIT_OUT": os.path.join(folder, "%p.dump"), "LD_LIBRARY_PATH": os.path.join(BUILD, "simcuda"),
                   "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    # The first line of the program stays its first line.
    head = f"VIEW = {dump + '.python.json'!r}; {program_head('cpu')}; exec({END!r})"
    try:
        done = subprocess.run([PYTHON, "-c", head + text], env=environment, capture_output=True, text=True, timeout=120,
                              check=False)
    except subprocess.TimeoutExpired:
        return f"{name}: no end in two minutes"
    if done.returncode != 0:
        return f"{name}: {(done.stderr.strip() or '?').splitlines()[-1]}"
    found = subprocess.run([os.path.join(BUILD, "bin", "culprit"), "tensors", "--all", "--format", "json", dump],
                           capture_output=True, text=True, timeout=60, check=False)
    if found.returncode != 0:
        return f"{name}: {found.stderr}"
    kept = json.loads(found.stdout)["dumps"][0]["caches"][0]["kept"]
    missing = [wanted for wanted in rows if not any(is_row(wanted, one) for one in kept)]
    return f"{name}: missing {missing} in {[(one['kind'], one['path'], one['bytes']) for one in kept[:4]]}" \
        if missing else ""


def main():
    version = subprocess.run([PYTHON, "-c", "import sys, torch; print(torch.__version__, sys.version.split()[0])"],
                             capture_output=True, text=True, check=False)
    if version.returncode != 0:
        print(f"FAIL  {PYTHON}: {(version.stderr.strip() or '?').splitlines()[-1]}")
        return 1
    # Programs that need a GPU have no "cpu" to run on.
    wanted = os.environ.get("KEEPER_PROGRAMS", "").split(",")  # names; default: all
    programs = [one for one in PROGRAMS if "cuda" not in one[1] and (wanted == [""] or one[0] in wanted)]
    with tempfile.TemporaryDirectory(prefix="culprit-torch-") as folder:
        problems = [problem for problem in (check(program, folder) for program in programs) if problem]
    for problem in problems:
        print("      " + problem)
    torch, python = version.stdout.split()
    print(f"{'FAIL' if problems else 'PASS'}  PyTorch {torch}, Python {python}: "
          f"{len(programs) - len(problems)} of {len(programs)} programs", flush=True)
    return 1 if problems else 0


sys.exit(main())
