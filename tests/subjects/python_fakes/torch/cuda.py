"""torch.cuda: lazy initialization, the caching allocator, its statistics and its snapshot."""
import ctypes
import os
import sys
import threading
import traceback
import types

_driver = ctypes.CDLL("libcuda.so.1")
_native = ctypes.CDLL(os.environ["FAKE_C10_CUDA"])
_native.take_segment.restype = _native.expand_segment.restype = ctypes.c_uint64
_expandable = "expandable_segments:True" in os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "")
_SEGMENT = 2 << 20
_MORE_THAN_THERE_IS = 1 << 48
_context = ctypes.c_void_p()
_initialized = _native_initialized = False
_initialization_lock = threading.Lock()
_queued_calls = []
_observers = []
_history = None


def is_initialized():
    return _initialized


def _lazy_call(call):
    with _initialization_lock:
        if _initialized:
            call()
        else:
            _queued_calls.append((call, traceback.format_stack()))


def _lazy_init():
    """Makes no context, like PyTorch: the first allocation makes it."""
    global _initialized, _native_initialized
    if _initialized:
        return
    with _initialization_lock:
        assert _driver.cuInit(0) == 0
        _native_initialized = True
        for call, _ in _queued_calls:
            call()
        _initialized = True


def _use_context():
    if not _context:
        assert _driver.cuDevicePrimaryCtxRetain(ctypes.byref(_context), 0) == 0
        assert _driver.cuCtxSetCurrent(_context) == 0


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=sys.maxsize):
    global _history
    assert enabled in (None, "state", "all")
    assert context in (None, "state", "alloc", "all") and stacks in ("python", "all")
    _must_be_initialized()
    _history = enabled


def _must_be_initialized():
    assert _native_initialized, "PyTorch initializes CUDA here: a call that comes too early changes the program"


def _attach_out_of_memory_observer(observer):
    _must_be_initialized()
    _observers.append(observer)


memory = types.SimpleNamespace(_record_memory_history=_record_memory_history)


def _count(segment, tensor):
    _native.count_bytes(ctypes.c_int64(segment), ctypes.c_int64(tensor))


class OutOfMemoryError(RuntimeError):
    pass


class _Allocator:
    """Segments are lists of blocks [address, size, requested size or None when idle, frames], in the order of
    addresses."""

    def __init__(self):
        self.segments = []

    def allocate(self, size):
        rounded = max(512, (size + 511) // 512 * 512)
        for segment in self.segments:
            for i, block in enumerate(segment):
                if block[2] is None and block[1] >= rounded:
                    rest = block[1] - rounded
                    remainder = [[block[0] + rounded, rest, None, []]] if rest else []
                    segment[i:i + 1] = [[block[0], rounded, size, self._frames()], *remainder]
                    _count(0, rounded)
                    return block[0]
        bytes_ = (rounded + _SEGMENT - 1) // _SEGMENT * _SEGMENT
        if _expandable:
            self._expand(bytes_)
        else:
            if size >= _MORE_THAN_THERE_IS:
                assert _driver.cuCtxSetCurrent(_context) == 0
                assert _driver.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(bytes_)) == 2
                for observer in _observers:
                    observer(0, bytes_, 0, 0)
                raise OutOfMemoryError("CUDA out of memory")
            address = _native.take_segment(ctypes.c_uint64(bytes_))
            assert address != 0
            self.segments.append([[address, bytes_, None, []]])
        _count(bytes_, 0)
        return self.allocate(size)

    def _expand(self, bytes_):
        """One segment grows behind its end."""
        if not self.segments:
            self.segments.append([])
        last = self.segments[0][-1] if self.segments[0] else None
        end = last[0] + last[1] if last else 0
        address = _native.expand_segment(ctypes.c_uint64(end), ctypes.c_uint64(bytes_))
        if last and last[2] is None:
            last[1] += bytes_
        else:
            self.segments[0].append([address, bytes_, None, []])

    def free(self, address):
        for segment in self.segments:
            for block in segment:
                if block[0] == address:
                    _count(0, -block[1])
                    block[2:] = [None, []]

    @staticmethod
    def _frames():
        frames, frame = [], sys._getframe(1)
        while _history and frame is not None:
            frames.append({"name": frame.f_code.co_name, "filename": frame.f_code.co_filename, "line": frame.f_lineno})
            frame = frame.f_back
        return frames


_allocator = _Allocator()


def device_count():
    return 1


def memory_allocated(device=None):
    assert device in (None, 0)
    return sum(segment["allocated_size"] for segment in memory_snapshot())


def memory_snapshot():
    result = []
    for blocks in _allocator.segments:
        live = sum(block[1] for block in blocks if block[2] is not None)
        result.append({
            "device": 0, "address": blocks[0][0], "total_size": sum(block[1] for block in blocks),
            "allocated_size": live, "active_size": live,
            "requested_size": sum(block[2] or 0 for block in blocks), "stream": 0,
            "segment_type": "small", "segment_pool_id": (0, 0), "is_expandable": _expandable, "frames": [],
            "blocks": [{"address": block[0], "size": block[1], "requested_size": block[2] or 0,
                        "state": "inactive" if block[2] is None else "active_allocated", "frames": block[3]}
                        for block in blocks]})
    return result
