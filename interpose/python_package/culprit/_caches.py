"""Live memory inside the caches of PyTorch and CuPy: a tensor that is kept. The allocators' segments stay when tensors
are freed, so culprit's own records do not show it."""
from __future__ import annotations

import ctypes
import sys
from typing import Any

from culprit import _api, _library, _tensors, _view
from culprit._headline import place_text


def _torch_bytes(torch: Any) -> int:
    """Of all devices. cuBLAS keeps workspaces among the tensors; they are no leak, and PyTorch makes them again."""
    clear = getattr(getattr(torch, "_C", None), "_cuda_clearCublasWorkspaces", None)
    if clear is not None:
        clear()
    backend = getattr(torch.cuda, "get_allocator_backend", None)
    if backend is not None and backend() == "cudaMallocAsync":
        return 0  # each tensor is an allocation of the driver, which culprit records
    return sum(torch.cuda.memory_allocated(device) for device in range(torch.cuda.device_count()))


def _has_context(device: int) -> bool:
    """Whether the program uses the device: a look at its pool would make a context there, which takes GPU memory."""
    flags, active = ctypes.c_uint(), ctypes.c_int()
    try:
        ask = ctypes.CDLL("libcuda.so.1").cuDevicePrimaryCtxGetState
    except (AttributeError, OSError):
        return False
    return ask(device, ctypes.byref(flags), ctypes.byref(active)) == 0 and active.value != 0


def _cupy_bytes(cupy: Any) -> int:
    pool = cupy.get_default_memory_pool()
    present = cupy.cuda.runtime.getDevice()
    used = int(pool.used_bytes())
    for device in range(cupy.cuda.runtime.getDeviceCount()):
        if device != present and _has_context(device):
            with cupy.cuda.Device(device):
                used += pool.used_bytes()
    return used


def live_bytes() -> int:
    """Bytes of all live tensors and arrays inside the caches of all devices; 0 before the program's first CUDA call."""
    if _api.now() == 0:
        return 0
    total = 0
    torch, cupy = _view.torch_in_use(), sys.modules.get("cupy")
    if torch is not None:
        total += _torch_bytes(torch)
    if hasattr(cupy, "get_default_memory_pool"):
        total += _cupy_bytes(cupy)
    return total


def live_blocks() -> dict[int, int]:
    """The live blocks of PyTorch's cache: {address: bytes}."""
    torch = _view.torch_in_use()
    if torch is None or _api.now() == 0:
        return {}
    return {block["address"]: block["bytes"] for segment in _view.torch_cache(torch)["segments"]
            for block in segment["blocks"]}


class Kept:
    """The largest live tensors of one line and holder."""

    def __init__(self, block: dict[str, Any], holder: str) -> None:
        self.file: str = block.get("file", "")
        self.line: int = block.get("line", 0)
        self.function: str = block.get("function", "")
        self.holder = holder
        self.bytes = self.count = 0

    def place(self) -> str:
        """How a line about a leak goes on."""
        if self.file:
            return place_text(self.file, self.line, self.function)
        return f" held by {self.holder}" if self.holder else ""

    def text(self) -> str:
        text = f"{self.bytes:,} bytes in {self.count} tensor{'s' if self.count != 1 else ''}"
        text += f" at {self.file.rpartition('/')[2]}:{self.line}" if self.file else ""
        return text + (f", held by {self.holder}" if self.holder else "")


def _keepers_of(view: dict[str, Any], addresses: set[int]) -> dict[int, str]:
    """The keeper of each of these blocks, by address: of nothing else, so that its size is theirs."""
    if "graph" not in view or _library.command() is None:
        return {}
    caches = []
    for cache in view["caches"]:
        segments = []
        for segment in cache["segments"]:
            blocks = [block for block in segment["blocks"] if block["address"] in addresses]
            segments.append({**segment, "blocks": blocks, "live_bytes": sum(block["bytes"] for block in blocks)})
        caches.append({**cache, "segments": segments})
    report = _tensors.read_keepers({**view, "caches": caches}, addresses=True)
    return {address: row["path"] for cache in report["dumps"][0]["caches"] for row in cache["kept"]
            for address in row["addresses"] if row["kind"] not in _NO_VARIABLE}


_NO_VARIABLE = ("native", "workspaces", "not-known", "pending", "cuda-graphs")


def kept_since(known: dict[int, int]) -> list[Kept]:
    """The live tensors that are not in the blocks `known`, the largest first."""
    natives = _tensors.natives()
    view = _view.collect("snapshot", True, natives) or {"caches": [], "objects": []}
    holders = {held["address"]: (held["holders"] or [""])[0] for held in view["objects"]}
    blocks = [block for cache in view["caches"] for segment in cache["segments"] for block in segment["blocks"]
              if known.get(block["address"]) != block["bytes"]]
    # CuPy has no list of blocks.
    blocks += [{"address": held["address"], "bytes": held["bytes"]} for held in view["objects"]
               if held["type"].startswith("cupy.")]
    try:
        holders.update(_keepers_of(view, {block["address"] for block in blocks}))
    except OSError:  # an older command
        pass
    places: dict[tuple[Any, Any, str], Kept] = {}
    for block in blocks:
        holder = holders.get(block["address"], "")
        kept = places.setdefault((block.get("file"), block.get("line"), holder), Kept(block, holder))
        kept.bytes += block["bytes"]
        kept.count += 1
    return sorted(places.values(), key=lambda kept: -kept.bytes)
