#!/usr/bin/env python3
"""Addresses of GPU memory that Python objects keep: numbers, values of ctypes, objects of C extensions, on the
simulated driver: raw_pointers_test.py BUILD_FOLDER SOURCE_FOLDER"""
import unittest

from view_test import Views, each_python

MALLOC = """
import collections, ctypes
cudart = ctypes.CDLL("libcudart.so.13")
def malloc(size):
    pointer = ctypes.c_void_p()
    assert cudart.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
    return pointer
def number(size): return malloc(size).value
class Buffer:
    def __init__(self, size): self.ptr = number(size)
class Slotted:
    __slots__ = ("handle",)
class Fields(ctypes.Structure):
    _fields_ = [("count", ctypes.c_int), ("name", ctypes.c_char * 60), ("data", ctypes.c_void_p)]
class Number(int): pass
"""
# Each allocation has its own size: the size, and the variable that a report names.
HELD = {
    1000: "`plain`", 2000: "`value`", 3000: "`table`, a list of 4", 4000: "`buffer.ptr`", 5000: "`slotted.handle`",
    6000: "`by_name['weights']`", 7000: "`array`", 8000: "`fields`", 9000: "`pointer`", 10000: "`point`, a point of 2",
    11000: "`call -> inside, a variable of its closure`", 12000: "`frozen`, a frozenset of 1",
    13000: "`data['a']['b']`, a list of 1 -> .ptr", 14000: "`word`", 15000: "`number_of_a_class`",
    16000: "`keeps -> a default value`", 17000: "`Registry.shared`",
}
WAYS = MALLOC + """
plain = number(1000)
value = malloc(2000)
table = [number(3000) for _ in range(4)]
buffer = Buffer(4000)
slotted = Slotted(); slotted.handle = malloc(5000)
by_name = {"weights": number(6000)}
array = (ctypes.c_void_p * 400)(*[0] * 395, number(7000))
fields = Fields(1, b"", number(8000))
pointer = ctypes.cast(number(9000), ctypes.POINTER(ctypes.c_float))
point = collections.namedtuple("point", "x at")(1, number(10000))
def closure():
    inside = number(11000)
    return lambda: inside
call = closure()
frozen = frozenset([number(12000)])
data = {"a": {"b": [Buffer(13000)]}}
word = ctypes.c_uint64(number(14000))
number_of_a_class = Number(number(15000))
def keeps(value=number(16000)): pass
class Registry: shared = number(17000)
"""
LOST = MALLOC + """
def lose():
    pointer = malloc(1000)
lose()
number(2000)
for size in 3000, 3001, 3002: last = number(size)
small = [size for size in range(70000)]
freed = number(4000)
cudart.cudaFree(ctypes.c_void_p(freed))
text = str(number(5000))
"""

# As Numba, CuPy without its pool and PyCUDA: the package has a list of all addresses, and an array the same object.
LISTED = MALLOC + """
import gc, sys, types
numba = types.ModuleType("numba")
numba.allocations = {}
sys.modules["numba"] = numba
class Vector:
    def __init__(self, size):
        self.pointer = malloc(size)
        numba.allocations[self.pointer.value] = self.pointer
class Layer: pass
app = Layer()
app.state = {"models": [Layer()]}
app.state["models"][0].layers = {"encoder": [Layer()]}
app.state["models"][0].layers["encoder"][0].cache = {"kv": (Vector(1000), 1)}
gc.disable()
def cycle():
    one, other = Layer(), Layer()
    one.other, other.one = other, one
    one.buffers = {"x": [Vector(2000)]}
cycle()
def only_listed(): Vector(3000)
only_listed()
"""
WAIT = """
import sys, time, threading
print("ready", flush=True)
orders = []
threading.Thread(target=lambda: orders.append(sys.stdin.read(1))).start()
while not orders: time.sleep(0.01)
"""
LISTED_HOLDERS = {
    1000: "`app.state['models']`, a list of 1 -> .layers -> .cache -> .pointer",
    2000: "a reference cycle with a Vector that no variable reaches (gc.collect() frees it)",
    3000: "`numba.allocations`, a dict of 3",
}


# Stand-ins for the types of packages, with the attributes that their readers read.
PACKAGES = MALLOC + """
import sys, types
def kind(module, name, **attributes):
    made = type(name, (), {"__module__": module, **attributes})
    sys.modules.setdefault(module, types.ModuleType(module))
    setattr(sys.modules[module], name, made)
    return made
class Metaclass(type):
    def __getattribute__(cls, name): print("the program's code ran:", name); return type.__getattribute__(cls, name)
class Foreign(metaclass=Metaclass):
    def __getattribute__(self, name): print("the program's code ran:", name); return object.__getattribute__(self, name)
Array = kind("numba.cuda.cudadrv.devicearray", "DeviceNDArray")
Pointer = kind("numba.cuda.cudadrv.driver", "MemoryPointer")
def array_of_numba(owner, address, size):
    made = Array()
    made.gpu_data, made.alloc_size = types.SimpleNamespace(owner=owner), size
    made.device_ctypes_pointer = types.SimpleNamespace(value=address)
    return made
owner = Pointer(); owner.size, owner.device_pointer_value = 20000, number(20000)
view = array_of_numba(owner, owner.device_pointer_value + 1024, 512); del owner
borrowed = array_of_numba(Foreign(), number(3000), 3000)
pooled = kind("cupy.cuda.memory", "PooledMemory")(); pooled.ptr, pooled.size = number(4096), 1500
buffer = kind("rmm.pylibrmm.device_buffer", "DeviceBuffer")(); buffer.ptr, buffer.size = number(5000), 5000
Allocation = kind("pycuda._driver", "PooledDeviceAllocation", __int__=lambda self: self.address,
                  __len__=lambda self: 6000)
allocation = Allocation(); allocation.address = number(8192)
Alone = kind("pycuda._driver", "DeviceAllocation", __int__=lambda self: self.address)
alone = Alone(); alone.address = number(7000)
gpu_array = kind("pycuda.gpuarray", "GPUArray")(); gpu_array.gpudata, gpu_array.nbytes = Foreign(), 100
"""
KEPT_BY_PACKAGES = {"`view`": 20000, "`borrowed`": 3000, "`pooled`": 1500, "`buffer`": 5000, "`allocation`": 6000,
                    "`alone`": 7000}


class RawPointers(Views):
    def verdicts(self):
        """Bytes: cause, and the text of the holder."""
        found = {}
        for leak in self.report()["leaks"]:
            held = [evidence["symbol"] for evidence in leak["evidence"] if evidence["type"] == "held"]
            found[leak["bytes"] // leak["count"]] = leak["cause"], held[0] if held else None
        return found

    @each_python
    def test_each_way_to_keep_an_address(self, python):
        self.both_ways(python, WAYS)
        expected = {size: ("held", holder) for size, holder in HELD.items()}
        self.assertEqual(self.verdicts(), expected)

    @each_python
    def test_a_package_that_lists_its_memory_is_named_last(self, python):
        self.both_ways(python, LISTED)
        self.assertEqual(self.verdicts(), {size: ("held", holder) for size, holder in LISTED_HOLDERS.items()})

    @each_python
    def test_memory_that_no_object_has_is_not_held(self, python):
        self.both_ways(python, LOST)
        found = self.verdicts()
        self.assertEqual(found.pop(3002), ("held", "`last`"))
        self.assertEqual(set(found), {1000, 2000, 3000, 5000})  # 3000 and 3001 are one group
        self.assertEqual({cause for cause, _ in found.values()}, {"never-freed"})

    @each_python
    def test_without_the_search(self, python):
        self.both_ways(python, WAYS, CULPRIT_SCAN="off")
        self.assertEqual({cause for cause, _ in self.verdicts().values()}, {"never-freed"})
        self.assertEqual(self.views(), {})

    @each_python
    def test_a_running_program(self, python):
        """The rows of `culprit tensors PID`. Memory that no object has is in none."""
        process = self.start(python, WAYS + "malloc(70000)\n" + WAIT)
        self.assertEqual(process.stdout.readline(), "ready\n")
        inside = self.keepers(process.pid, pool="other arrays and pointers")
        rows = {row["path"]: row["bytes"] for row in inside["kept"]}
        expected = {holder: size for size, holder in HELD.items()}
        expected["`table`, a list of 4"] *= 4
        self.assertEqual(rows, expected)
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_a_program_that_allocates_while_its_copy_is_read(self, python):
        """Its dump grows beyond what the copy has of it."""
        busy = ("import sys, threading\nkept = number(1000)\norders = []\nprint('ready', flush=True)\n"
                "threading.Thread(target=lambda: orders.append(sys.stdin.read(1))).start()\n"
                "import time\ntable = []\nwhile not orders:\n    table += [number(64) for _ in range(100)]\n"
                "    time.sleep(0.005)\n")
        process = self.start(python, MALLOC + busy)
        self.assertEqual(process.stdout.readline(), "ready\n")
        for _ in range(5):
            rows = {row["path"]: row["bytes"]
                    for row in self.keepers(process.pid, pool="other arrays and pointers")["kept"]}
            self.assertEqual(rows.get("`kept`"), 1000, rows)
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_too_many_objects(self, python):
        """The command says so, instead of that no array is live."""
        process = self.start(python, MALLOC + "first = malloc(1000)\n"
                             "table = [[first] for _ in range(310000)]\n" + WAIT)
        self.assertEqual(process.stdout.readline(), "ready\n")
        row, = self.keepers(process.pid, pool="other arrays and pointers")["kept"]
        self.assertEqual((row["kind"], row["bytes"]), ("not-known", 0))
        self.assertRegex(row["path"], "^31.,... objects lead to it, which is too many$")
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_objects_of_packages(self, python):
        process = self.start(python, PACKAGES + WAIT)
        self.assertEqual(process.stdout.readline(), "ready\n")
        inside = self.keepers(process.pid, pool="other arrays and pointers")
        self.assertEqual({row["path"]: row["bytes"] for row in inside["kept"]}, KEPT_BY_PACKAGES)
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_a_running_program_whose_package_lists_its_memory(self, python):
        process = self.start(python, LISTED + WAIT)
        self.assertEqual(process.stdout.readline(), "ready\n")
        rows = {(row["kind"], row["path"], row["bytes"])
                for row in self.keepers(process.pid, pool="other arrays and pointers")["kept"]}
        self.assertEqual(rows, {("variable", LISTED_HOLDERS[1000], 1000),
                                ("garbage", "a reference cycle with a Vector", 2000),
                                ("variable", LISTED_HOLDERS[3000], 3000)})
        self.assertEqual(process.communicate("x", timeout=60), ("", ""))

    @each_python
    def test_a_program_that_frees_everything_has_no_view(self, python):
        self.both_ways(python, MALLOC + "pointer = malloc(1000)\ncudart.cudaFree(pointer)\n")
        self.assertEqual(self.views(), {})


if __name__ == "__main__":
    unittest.main(argv=["raw_pointers_test.py"], verbosity=2)
