"""Allocates through libcudart by ctypes: GPU memory without a framework."""
import ctypes

_cudart = ctypes.CDLL("libcudart.so.13")


class Memory:
    """Freed by free() or with the object."""

    def __init__(self, size):
        self._pointer = ctypes.c_void_p()
        assert _cudart.cudaMalloc(ctypes.byref(self._pointer), ctypes.c_size_t(size)) == 0

    def free(self):
        if self._pointer:
            assert _cudart.cudaFree(self._pointer) == 0
            self._pointer = None

    __del__ = free
