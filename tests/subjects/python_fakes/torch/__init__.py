"""A stand-in for PyTorch with the parts that culprit asks: tensors on CUDA with the graphs that computed them, a
caching allocator with segments of 2 MiB, and its memory_snapshot() in the form of PyTorch 2.11. A tensor has the size
that it is made with, and no values. Memory comes from the driver, with PYTORCH_NO_CUDA_MEMORY_CACHING=1 each tensor's
by itself.
"""
import ctypes
import os
import types

from torch import cuda, nn
from torch import layout as _layout

__version__ = "2.11.0+fake"
_direct = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1"


_libc = ctypes.CDLL(None)
_malloc, _free = _libc.malloc, _libc.free
_malloc.restype, _malloc.argtypes, _free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]

strided = object()  # a layout


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

        self._implementation = _layout.StorageImpl(self._address, size)
        self._cdata = ctypes.addressof(self._implementation)

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


class _PinnedStorage:
    """Memory of the host that the driver allocated. No object of Python has its address, as with PyTorch."""
    def __init__(self, size):
        cuda._lazy_init()
        cuda._use_context()
        address = ctypes.c_void_p()
        assert cuda._driver.cuMemHostAlloc(ctypes.byref(address), ctypes.c_size_t(size), 0) == 0
        implementation = _layout.StorageImpl(address.value, size, _layout.CPU)
        self._cdata = _malloc(ctypes.sizeof(implementation))
        ctypes.memmove(self._cdata, ctypes.byref(implementation), ctypes.sizeof(implementation))

    def _words(self):
        return _layout.StorageImpl.from_address(self._cdata)

    def __del__(self):
        cuda._driver.cuMemFreeHost(ctypes.c_void_p(self.data_ptr()))
        _free(self._cdata)

    def data_ptr(self):
        return self._words().data

    def nbytes(self):
        return self._words().size


class Tensor:
    layout = strided
    grad = None
    _version = 0

    def __init__(self, size, grad_fn=None, requires_grad=False, pinned=False):
        self._storage = _PinnedStorage(size) if pinned else _Storage(size)
        self._implementation = _layout.TensorImpl(storage=self._storage._cdata)
        self._cdata = ctypes.addressof(self._implementation)
        self.grad_fn = grad_fn
        self.requires_grad = requires_grad or grad_fn is not None

    @property
    def is_leaf(self):
        return self.grad_fn is None

    def _is_view(self):
        return False

    def _make(self, size, *others):
        """The result of an operation that saves this tensor, where a gradient is wanted."""
        following = [one.grad_fn for one in (self, *others) if one.grad_fn is not None]
        wanted = self.requires_grad or any(one.requires_grad for one in others)
        return Tensor(size, _layout.Node(following, self, _hooks) if wanted else None)

    def square(self):
        return self._make(self._storage.nbytes())

    def mean(self):
        return self._make(4)

    def detach(self):
        return Tensor(self._storage.nbytes())

    @property
    def is_cuda(self):
        return type(self._storage) is _Storage

    def untyped_storage(self):
        return self._storage


_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=cuda._attach_out_of_memory_observer)


def empty(size, pin_memory=False):
    return Tensor(size, pinned=pin_memory)


def give_workspace(handle, size):
    """Memory for cuBLAS, which C++ alone has."""
    storage = _Storage(size)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(storage))
    cuda._native.add_workspace(ctypes.c_void_p(handle), ctypes.c_void_p(storage.data_ptr()))


def hook_saved_tensors(hooked):
    """The saved tensors of later operations are behind hooks of the program: True, or the function that packs them."""
    global _hooks
    _hooks = hooked


_hooks = None
nn.Parameter = type("Parameter", (Tensor,), {})
