"""The objects of C++ behind tensors and autograd's nodes, as culprit reads them: words of memory with PyTorch's layout.
A structure of ctypes has the address of its memory where an object of pybind11 has its pointer."""
import ctypes

CPU, CUDA = 0, 1  # c10::DeviceType


class StorageImpl(ctypes.Structure):
    _fields_ = [("head", ctypes.c_uint64 * 2), ("data", ctypes.c_uint64), ("context", ctypes.c_uint64 * 2),
                ("device", ctypes.c_uint64), ("size", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 5)]

    def __init__(self, address, size, device=CUDA):
        super().__init__(data=address, device=device, size=size)


class TensorImpl(ctypes.Structure):
    _fields_ = [("head", ctypes.c_uint64 * 2), ("storage", ctypes.c_uint64), ("rest", ctypes.c_uint64 * 5)]


class SavedTensor(ctypes.Structure):
    """torch/csrc/autograd/saved_variable.h"""
    _fields_ = [("tensor", ctypes.c_uint64), ("pointers", ctypes.c_uint64 * 4), ("numbers", ctypes.c_uint64),
                ("bits", ctypes.c_uint64), ("hooks", ctypes.c_uint64), ("next", ctypes.c_uint64)]


class Hooks(ctypes.Structure):
    """torch/csrc/autograd/python_saved_variable_hooks.h"""
    _fields_ = [("table", ctypes.c_uint64), ("pack", ctypes.c_uint64), ("unpack", ctypes.c_uint64),
                ("data", ctypes.c_uint64)]


def hooks_of(pack, tensor):
    """The hooks with what the function made of the tensor: an object that only C++ has. True: hooks of C++."""
    if pack is True:
        return Hooks()
    packed = pack(tensor)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(packed))
    return Hooks(unpack=id(pack), data=id(packed))


class Node:
    """A node of autograd's graph. It keeps the memory of a tensor that it saved, and not the tensor."""
    __slots__ = ("_raw_saved_self", "alive", "metadata", "next_functions")

    def __init__(self, following=(), saved=None, hooks=None):
        self.next_functions = tuple((one, 0) for one in following)
        self.alive = self._raw_saved_self = None
        if saved is not None:
            empty = TensorImpl()
            made = hooks_of(hooks, saved) if hooks else None
            self.alive = None if callable(hooks) else saved._storage, saved._implementation, empty, made
            self._raw_saved_self = SavedTensor(tensor=ctypes.addressof(empty) if hooks else saved._cdata,
                                               hooks=ctypes.addressof(made) if hooks else 0)

    @property
    def _saved_self(self):
        raise SystemExit("a saved tensor was read through the program's hooks")
