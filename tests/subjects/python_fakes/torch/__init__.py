"""A stand-in for PyTorch with the parts that culprit asks: tensors on CUDA, a caching allocator with segments of 2 MiB,
and its memory_snapshot() in the form of PyTorch 2.11. Memory comes from the driver, with
PYTORCH_NO_CUDA_MEMORY_CACHING=1 each tensor's by itself.
"""
import ctypes
import os
import types

from torch import cuda, nn

__version__ = "2.11.0+fake"
_direct = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1"


class _Storage:
    def __init__(self, size):
        cuda._lazy_init()
        cuda._use_context()
        self._size = size
        self._address = None
        if _direct:
            pointer = ctypes.c_uint64()
            assert cuda._driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
            self._address = pointer.value
        else:
            self._address = cuda._allocator.allocate(size)

    def __del__(self):
        if self._address is None:
            return
        if _direct:
            cuda._driver.cuMemFree_v2(ctypes.c_uint64(self._address))
        else:
            cuda._allocator.free(self._address)

    def data_ptr(self):
        return self._address

    def nbytes(self):
        return self._size


class Tensor:
    def __init__(self, size):
        self._storage = _Storage(size)

    @property
    def is_cuda(self):
        return True

    def untyped_storage(self):
        return self._storage


_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=cuda._attach_out_of_memory_observer)


def empty(size):
    return Tensor(size)


nn.Parameter = type("Parameter", (Tensor,), {})
