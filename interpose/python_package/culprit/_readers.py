"""The memory of the objects of each framework but PyTorch, whose tensors _torch_tensors.py reads, and the pools in
which it lies: one row of TABLE for each type.

An object is read by the attributes of its exact type, which are the framework's own code: a subclass may run code of
the program. Its module is one that the program has imported.
"""
import sys

from culprit import _types

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any


_OBJECTS = 17  # NumPy's number for elements that are objects


def _module_of(thing: "Any") -> str:
    """Of its type, whose metaclass may be one of the program."""
    return str(type.__getattribute__(type(thing), "__module__"))


def _cupy_memory(memory: "Any") -> "tuple[int, ...]":
    """Of an array, or of cupy.cuda.alloc()."""
    return memory.ptr, memory.size, getattr(memory, "device_id", 0)


def _cupy(array: "Any") -> "tuple[int, ...]":
    return _cupy_memory(array.data.mem)


def _numba(array: "Any") -> "tuple[int, int]":
    """A view keeps the whole allocation. The owner of borrowed memory is an object of the program."""
    whole: Any = getattr(getattr(array, "gpu_data", None), "owner", None)
    if _module_of(whole) != "numba.cuda.cudadrv.driver":
        return array.device_ctypes_pointer.value or 0, array.alloc_size
    return whole.device_pointer_value or 0, whole.size


def _pycuda(array: "Any") -> "tuple[int, int]":
    """`gpudata` may be an object of the program, with an __int__ of its own."""
    memory = array.gpudata
    if not _module_of(memory).startswith("pycuda."):
        return 0, 0
    return int(memory), array.nbytes


def _pycuda_allocation(memory: "Any") -> "tuple[int, int]":
    """It does not know its size. libculprit.so cannot see the address in it: the object leads to one of C++."""
    return int(memory), 0


def _pycuda_pooled(memory: "Any") -> "tuple[int, int]":
    return int(memory), len(memory)


def _rmm(buffer: "Any") -> "tuple[int, int]":
    return buffer.ptr, buffer.size


def _cuda_core(buffer: "Any") -> "tuple[int, int]":
    return int(buffer.handle), buffer.size


# Framework, module, type, reader: address and bytes of an object of exactly this type, and its device if known.
TABLE = (
    ("cupy", "cupy", "ndarray", _cupy),
    ("cupy", "cupy.cuda.memory", "PooledMemory", _cupy_memory),
    ("numba", "numba.cuda.cudadrv.devicearray", "DeviceNDArray", _numba),
    ("pycuda", "pycuda.gpuarray", "GPUArray", _pycuda),
    ("pycuda", "pycuda._driver", "DeviceAllocation", _pycuda_allocation),
    ("pycuda", "pycuda._driver", "PooledDeviceAllocation", _pycuda_pooled),
    ("rmm", "rmm.pylibrmm.device_buffer", "DeviceBuffer", _rmm),
    ("cuda", "cuda.core._memory._buffer", "Buffer", _cuda_core),
    ("cuda", "cuda.core.experimental._memory", "Buffer", _cuda_core),
)


def arrays_of_numpy(words: "Any") -> "Any":
    """NumPy's type of arrays, whose elements the collector does not know; None where the layout that the library reads
    (interpose/inside_python/object_arrays.h) is not that of an array of this code."""
    numpy = sys.modules.get("numpy")
    kind = getattr(numpy, "ndarray", None)
    if type(kind) is not type or _types.type_name(kind) != "ndarray":
        return None
    one = kind((3,), object)
    part = one[:2]
    fields, fields_of_part = words(id(one), 9), words(id(part), 9)
    if len(fields) != 9 or len(fields_of_part) != 9:
        return None
    _, _, elements, dimensions, sizes, _, base, element_type, flags = fields
    known = (dimensions & 0xffffffff == 1 and words(sizes, 1) == [3] and base == 0 and fields_of_part[6] == id(one)
             and set(words(elements, 3)) <= {0, id(None)} and element_type == id(one.dtype) and flags & 7 == 7
             and [word >> 32 for word in words(element_type + 24, 1)] == [_OBJECTS])
    return kind if known else None


def types_in_use() -> "dict[type, tuple[str, Any]]":
    """Framework and reader, by type."""
    found: dict[type, tuple[str, Any]] = {}
    for framework, module, name, reader in TABLE:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type):
            found[kind] = framework, reader
    return found


def attempt(function: "Any", *arguments: "Any", lost: "list[str] | None" = None, what: str = "") -> "Any":
    """The function's result; None when it raises, because the framework's version is an unknown one. `lost` then gets
    the reason why `what` is not known."""
    from culprit import _referrers

    try:
        return function(*arguments)
    except Exception as error:  # pylint: disable=broad-except
        if _referrers.is_of_a_signal_handler(error):
            raise
        if lost is not None:
            lost.append(f"{what} could not be read ({type(error).__name__})")
        return None


# --- Pools: framework, device, bytes in use, bytes in all

def _cupy_pools(cupy: "Any") -> "list[tuple[str, int, int, int]]":
    """The pool of the current device. A look at another device's pool would make that device current."""
    pool = cupy.get_default_memory_pool()
    total = pool.total_bytes()
    return [("cupy", cupy.cuda.runtime.getDevice(), pool.used_bytes(), total)] if total != 0 else []


def _jax_clients() -> "list[Any]":
    """Those that the program has made: a question to JAX itself would make one."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    backends = getattr(bridge, "_backends", None)
    return list(backends.values()) if type(backends) is dict else []


def _jax_pools(client: "Any") -> "list[tuple[str, int, int, int]]":
    found = []
    for device in client.local_devices():
        stats = device.memory_stats() or {}
        total = stats.get("pool_bytes") or stats.get("bytes_reserved") or 0
        used = stats.get("bytes_in_use", 0)
        if total or used:
            found.append(("jax", device.local_hardware_id, used, max(total, used)))
    return found


def pools(lost: "list[str]") -> "list[dict[str, Any]]":
    """`lost`: gets the reasons why some are not known."""
    cupy = sys.modules.get("cupy")
    found: list[tuple[str, int, int, int]] = []
    if hasattr(cupy, "get_default_memory_pool"):
        found += attempt(_cupy_pools, cupy, lost=lost, what="CuPy's pool") or []
    for client in attempt(_jax_clients, lost=lost, what="JAX's devices") or []:
        found += attempt(_jax_pools, client, lost=lost, what="JAX's pools") or []
    return [{"framework": framework, "device": device, "used_bytes": used, "total_bytes": total}
            for framework, device, used, total in found]


def _arrays_of_client(client: "Any", lost: "list[str]") -> "list[tuple[Any, str, int, int]]":
    found = []
    unread: list[str] = []
    for array in client.live_arrays():
        for shard in getattr(array, "_arrays", None) or [array]:
            place = attempt(_jax, shard, lost=unread, what="some of JAX's arrays")
            if place is not None and place[1] != 0:
                found.append((array, *place))
    lost += unread[:1]
    return found


def _jax(array: "Any") -> "tuple[str, int, int]":
    device, = array.devices()
    return f"jax:{device.local_hardware_id}", array.unsafe_buffer_pointer(), array.on_device_size_in_bytes()


def known_arrays(lost: "list[str]") -> "list[tuple[Any, str, int, int]]":
    """Arrays that a framework lists by itself: the object, pool, address, bytes. They are not read in a frozen copy of
    the process, because the framework may wait there for a thread of its own. `lost`: as in pools()."""
    found: list[tuple[Any, str, int, int]] = []
    for client in attempt(_jax_clients) or []:
        found += attempt(_arrays_of_client, client, lost, lost=lost, what="JAX's arrays") or []
    return found
