"""Live memory inside the caches of PyTorch and CuPy: a tensor that is kept. The allocators' segments stay when tensors
are freed, so culprit's own records do not show it."""
import ctypes

from culprit import _api, _view


def _torch_bytes(torch):
    """Of all devices. cuBLAS keeps workspaces among the tensors; they are no leak, and PyTorch makes them again."""
    clear = getattr(getattr(torch, "_C", None), "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    backend = getattr(torch.cuda, "get_allocator_backend", None)
    if backend is not None and backend() == "cudaMallocAsync":
        return 0  # each tensor is an allocation of the driver, which culprit records
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def _has_context(device):
    """Whether the program uses the device: a look at its pool would make a context there, which takes GPU memory."""
    flags, active = ctypes.c_uint(), ctypes.c_int()
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState
    except (AttributeError, OSError):
        return False
    return ask(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value != 0


def _cupy_bytes(cupy):
    pool = cupy.get_default_memory_pool()
    present = cupy.cuda.runtime.getDevice()
    used = pool.used_bytes()
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        if device != present and _has_context(device):
            with cupy.cuda.Device(device):
                used += pool.used_bytes()
    return used


def live_bytes():
    """Bytes of all live tensors and arrays inside the caches of all devices; 0 before the program's first CUDA call."""
    if _api.now() == 0:
        return 0
    total = 0
    for framework, read in (_view.torch_in_use(), _torch_bytes), (_view.cupy_in_use(), _cupy_bytes):
        if framework is not None:
            total += read(framework)
    return total


def live_blocks():
    """The live blocks of PyTorch's cache: {address: bytes}."""
    torch = _view.torch_in_use()
    if torch is None or _api.now() == 0:
        return {}
    return {block["address"]: block["bytes"] for segment in _view.torch_cache(torch)["segments"]
            for block in segment["blocks"]}


def describe(known):
    """Lines about the largest live tensors that are not in the blocks `known`, by line and holder."""
    view = _view.collect("snapshot", True) or {"caches": [], "objects": []}
    holders = {held["address"]: (held["holders"] or [""])[0] for held in view["objects"]}
    places = {}
    blocks = [(block["address"], block["bytes"], f"{block['file'].rpartition('/')[2]}:{block['line']}"
               if "file" in block else "")
              for cache in view["caches"] for segment in cache["segments"] for block in segment["blocks"]
              if known.get(block["address"]) != block["bytes"]]
    # CuPy has no list of blocks.
    blocks += [(held["address"], held["bytes"], "") for held in view["objects"] if held["type"].startswith("cupy.")]
    for address, size, line in blocks:
        place = places.setdefault((line, holders.get(address, "")), [0, 0])
        place[0] += size
        place[1] += 1
    lines = []
    for (line, holder), (size, count) in sorted(places.items(), key=lambda item: -item[1][0])[:5]:
        text = f"{size:,} bytes in {count} tensor{'s' if count != 1 else ''}"
        lines.append(text + (f" at {line}" if line else "") + (f", held by {holder}" if holder else ""))
    return lines
