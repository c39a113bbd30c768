#!/usr/bin/env python3
"""Memory of a cache that C++ alone has: the variables of libraries and the objects of Python that lead to it
(interpose/causes/native_holders.h), on the simulated driver with the stand-in for PyTorch: cpp_tensors_test.py
BUILD_FOLDER SOURCE_FOLDER"""
import glob
import os
import shutil
import unittest

from raw_pointers_test import WAIT
from view_test import BUILD, TORCH, Views, each_python

LIBRARY = os.path.join(BUILD, "subjects", "cpp_tensors.so")
TEXT = TORCH + f"library = {LIBRARY!r}\n" + """
import ctypes
def memory(mib):
    storage = torch._Storage(mib << 20)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(storage))
    return ctypes.c_void_p(storage.data_ptr())
def given(thing):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
    return ctypes.c_void_p(id(thing))
kept = torch.empty(2 << 20)
cpp = ctypes.CDLL(library)
cpp.make_tensor.restype = ctypes.c_void_p
cpp.keep_in_map(b"first", memory(4)); cpp.keep_in_map(b"other", memory(4))
cpp.keep_direct(memory(6))
cpp.keep_raw(memory(10))
cpp.keep_in_thread(memory(12))
cpp.keep_in_engine(memory(14), None)
cpp.keep_in_engine(None, given([torch.empty(16 << 20)]))
class Model:
    def __init__(self, mib): self.handle = ctypes.c_void_p(cpp.make_tensor(memory(mib)))
model = Model(18)
cpp.forget(ctypes.c_void_p(cpp.make_tensor(memory(20))))
new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
capsules = [new_capsule(cpp.make_tensor(memory(24)), None, None)]
leaked = [torch.empty(22 << 20)]
given(leaked)
# Addresses in the interpreter's own data may be no references, as those in its tables of freed objects.
ctypes.c_void_p.in_dll(ctypes.pythonapi, "PyOS_ReadlineFunctionPointer").value = id(leaked)
del leaked
"""
ROWS = {
    ("library", "`cached of cpp_tensors.so`"): 8, ("library", "`direct of cpp_tensors.so`"): 6,
    ("library", "`scratch of cpp_tensors.so`"): 10, ("library", "`last_result of cpp_tensors.so`"): 12,
    ("library", "`engines::current of cpp_tensors.so`"): 14,
    ("library", "`engines::current of cpp_tensors.so`, a list of 1"): 16,
    ("variable", "`capsules`, a list of 1 -> C++ objects"): 24,
    ("variable", "`model.handle -> C++ objects`"): 18, ("variable", "`kept`"): 2,
    ("native", "no Python object leads to it: workspaces, extensions, tensors of C++"): 20,
    ("native", "C code that has a reference to a list"): 22,
}


def rows_of(inside):
    """Bytes in MiB by kind and path."""
    return {(row["kind"], row["path"]): row["bytes"] >> 20 for row in inside["kept"]}


# A library of the framework itself has a pointer to the memory of each.
OF_FRAMEWORK = """
of_framework = ctypes.CDLL(other_library)
late = Model.__new__(Model)
both = memory(26)
of_framework.keep_direct(both)
late.handle = ctypes.c_void_p(cpp.make_tensor(both))
of_framework.keep_raw(memory(28))
# Without a beginning, and long: the search makes all of its passes.
malloc = ctypes.CDLL(None).malloc
malloc.restype = ctypes.c_void_p
chain = cpp.make_tensor(memory(30))
for _ in range(20):
    link = malloc(24)
    ctypes.c_void_p.from_address(link).value = chain
    chain = link
del chain, link
"""


class CppTensors(Views):
    @each_python
    def test_keepers_of_cpp(self, python):
        """By variables of libraries and by objects of Python. Without them, or without the search, C++ alone has it."""
        def rows(**more):
            self.clean()
            self.both_ways(python, TEXT, **more)
            dump, = glob.glob(os.path.join(self.folder, "*.dump"))
            return rows_of(self.keepers(dump))

        self.assertEqual(rows(), ROWS)
        # The interpreter's own memory is malloc's, too: not searched.
        for more in {"CULPRIT_SCAN": "off"}, {"PYTHONMALLOC": "malloc"}:
            self.assertEqual({kind for kind, _ in rows(**more)}, {"variable", "native"})

    @each_python
    def test_a_framework_s_own_variables(self, python):
        """They count where nothing else leads to the memory."""
        other = os.path.join(self.folder, "libtorch_other.so")
        shutil.copy(LIBRARY, other)
        self.both_ways(python, f"other_library = {other!r}\n" + TEXT + OF_FRAMEWORK)
        dump, = glob.glob(os.path.join(self.folder, "*.dump"))
        found = rows_of(self.keepers(dump))
        self.assertEqual(found.get(("variable", "`late.handle -> C++ objects`")), 26)
        self.assertEqual(found.get(("library", "`scratch of libtorch_other.so`")), 28)
        self.assertEqual({mib for (_, path), mib in found.items() if "`direct of libtorch_other.so`" in path}, set())
        # Another build of it may have other variables there.
        with open(other, "r+b") as file:
            file.seek(file.read().index(b"\3\0\0\0GNU\0") + 8)
            file.write(b"another")
        found = rows_of(self.keepers(dump))
        self.assertEqual(found.get(("library", "`a variable of libtorch_other.so`")), 28, found)

    @each_python
    def test_a_running_process(self, python):
        """With the library and without it; the ids of keepers stay."""
        ids = []
        for preload in True, False:
            process = self.start(python, TEXT + WAIT, preload=preload)
            self.assertEqual(process.stdout.readline(), "ready\n")
            inside = self.keepers(process.pid)
            self.assertEqual(rows_of(inside), ROWS)
            ids.append({row["id"] for row in inside["kept"]})
            self.assertEqual(process.communicate("x", timeout=60), ("", ""))
        self.assertEqual(ids[0], ids[1])
        self.assertEqual(len(ids[0]), len(ROWS))


if __name__ == "__main__":
    unittest.main(argv=["cpp_tensors_test.py"], verbosity=2)
