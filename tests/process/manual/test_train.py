"""A test that grows with each repetition."""
import ctypes
import os

runtime = ctypes.CDLL(os.environ["CUDART"])


class Memory:
    def __init__(self, size):
        self.pointer = ctypes.c_void_p()
        assert runtime.cudaMalloc(ctypes.byref(self.pointer), ctypes.c_size_t(size)) == 0


def test_step():
    Memory(4 << 20)
