"""A stand-in for CuPy with the parts that culprit asks: arrays, and a pool that keeps freed memory.
FAKE_CUPY_POOL=0: without the pool, as after cupy.cuda.set_allocator(None).
"""
import ctypes
import os
import types

_driver = ctypes.CDLL("libcuda.so.1")
_context = ctypes.c_void_p()
assert _driver.cuInit(0) == 0 and _driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0) == 0
assert _driver.cuCtxSetCurrent(_context) == 0
_pooled = os.environ.get("FAKE_CUPY_POOL") != "0"
__version__ = "14.2+fake"


class _Pool:
    def __init__(self):
        self._total = self._used = 0

    def take(self, size):
        self._total += size
        self._used += size

    def give_back(self, size):
        self._used -= size

    def total_bytes(self):
        return self._total

    def used_bytes(self):
        return self._used


_pools = {0: _Pool(), 1: _Pool()}  # of each device
_device = 0


class _Device:
    def __init__(self, number):
        self._number = number

    def __enter__(self):
        global _device
        self._before, _device = _device, self._number

    def __exit__(self, *_):
        global _device
        _device = self._before


class ndarray:
    def __init__(self, size):
        self._device = _device
        pointer = ctypes.c_uint64()
        assert _driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size)) == 0
        self.data = types.SimpleNamespace(mem=types.SimpleNamespace(ptr=pointer.value, size=size))
        if _pooled:
            _pools[self._device].take(size)

    def __del__(self):
        if _pooled:
            _pools[self._device].give_back(self.data.mem.size)


def empty(size):
    return ndarray(size)


class _DefaultPool:
    def total_bytes(self):
        return _pools[_device].total_bytes()

    def used_bytes(self):
        return _pools[_device].used_bytes()


def get_default_memory_pool():
    return _DefaultPool()


cuda = types.SimpleNamespace(runtime=types.SimpleNamespace(getDevice=lambda: _device, getDeviceCount=lambda: 2),
                             Device=_Device)
