"""The view from inside: the memory that PyTorch, CuPy, JAX and others report, as the text of a file beside the dump.
`culprit report` joins it by address.

The file (schema culprit.python/1) is JSON:

    {"schema": "culprit.python/1", "pid": 4242, "taken": "exit", "snapshot" or "out-of-memory",
     "caches": [{"framework": "torch", "version": "2.11.0",
                 "segments": [{"device": 0, "address": n, "bytes": n, "live_bytes": n, "largest_idle": n,
                               "pending_bytes": n, "private_pool": 0 or 1, "small": 0 or 1,
                               "blocks": [{"address": n, "bytes": n,
                                           "file": "train.py", "line": 41, "function": "step"}]}]}],
     "pools": [{"framework": "cupy" or "jax", "device": 0, "used_bytes": n, "total_bytes": n}],
     "objects": [{"address": n, "bytes": n, "type": "torch.Tensor", "holders": ["`Trainer.losses`, a list of 12,000"]}],
     "ran_out": {a view without "schema" and "pid"}}

`blocks` has live blocks only, with file, line and function when the framework recorded them. `largest_idle` is the
largest idle block, `pending_bytes` are freed but another stream may still use them, `private_pool` is 1 in a pool of
CUDA graphs, `small` is 1 where tensors of up to 1 MiB lie. `ran_out`, which may be
missing, is the latest view of a moment at which memory ran out. A framework is asked only after the program has
imported it and initialized CUDA.

libculprit.so has this source inside too (interpose/inside_python), and runs it between two lines of the program, like a
signal handler. Therefore this code imports modules that are part of the interpreter only, and takes no lock of Python
code.
"""
import gc
import posix
import sys

from culprit import _graph, _readers, _referrers

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

SCHEMA = "culprit.python/1"
SUFFIX = ".python.json"
# To name the holders of a tensor the whole heap is walked several times: about a second for a million objects.
MOST_OBJECTS = 1_000_000
MOST_NAMED = 64


def torch_in_use() -> "Any":
    """The torch module when the program has imported it and initialized CUDA, else None."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    initialized = getattr(cuda, "is_initialized", None)
    return torch if initialized is not None and initialized() else None


def _user_frame(frames: "list[dict[str, Any]]", package: str) -> "dict[str, Any]":
    """The innermost Python frame outside of the framework."""
    for frame in frames:
        file = frame.get("filename") or ""
        typed = file.startswith("<") and not file.startswith("<frozen")  # python -c, or a cell of a notebook
        if (file.endswith(".py") or typed) and not file.startswith(package + "/"):
            return {"file": file, "line": int(frame.get("line") or 0), "function": str(frame.get("name") or "")}
    return {}


def torch_cache(torch: "Any") -> "dict[str, Any]":
    package = (getattr(torch, "__file__", None) or "torch/").rpartition("/")[0]
    segments = []
    for segment in torch.cuda.memory_snapshot():
        blocks = []
        largest_idle = pending = 0
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                frames = block.get("frames") or (block.get("history") or [{}])[0].get("frames") or []
                blocks.append({"address": block.get("address", address), "bytes": block["size"],
                               **_user_frame(frames, package)})
            elif block["state"] == "inactive":
                largest_idle = max(largest_idle, block["size"])
            else:
                pending += block["size"]
            address += block["size"]
        segments.append({"device": segment["device"], "address": segment["address"], "bytes": segment["total_size"],
                         "live_bytes": segment["allocated_size"], "largest_idle": largest_idle,
                         "pending_bytes": pending, "private_pool": any(segment.get("segment_pool_id") or ()),
                         "small": segment.get("segment_type") == "small", "blocks": blocks})
    return {"framework": "torch", "version": str(getattr(torch, "__version__", "")), "segments": segments}


def _torch_storage(tensor: "Any") -> "Any":
    if not tensor.is_cuda:
        return None
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.nbytes()


def _memory_readers(torch: "Any") -> "dict[type, Any]":
    """Functions that read the memory of an object, by exact type: a subclass may run code of the program."""
    readers: dict[type, Any] = {kind: reader for kind, (_, reader) in _readers.types_in_use().items()}
    if torch is not None:
        readers[torch.Tensor] = _torch_storage
        parameter = getattr(getattr(torch, "nn", None), "Parameter", None)
        if parameter is not None:
            readers[parameter] = _torch_storage
    return readers


def live_objects(torch: "Any", most_objects: "int | None" = None) -> "list[dict[str, Any]]":
    """The largest live tensors and arrays, each memory once, with their holders. Empty when the heap has more than
    `most_objects` objects."""
    readers = _memory_readers(torch)
    everything = gc.get_objects()
    if most_objects is not None and len(everything) > most_objects:
        return []
    found: dict[int, Any] = {}  # address -> (bytes, objects)
    for thing in everything:
        reader = readers.get(type(thing))
        memory = _readers.attempt(reader, thing) if reader is not None else None
        if memory is not None and memory[0] != 0:
            found.setdefault(memory[0], (memory[1], []))[1].append(thing)
    del everything
    largest = sorted(found.items(), key=lambda item: -item[1][0])[:MOST_NAMED]
    things = [thing for _, (_, several) in largest for thing in several[:4]]
    lists = [several for _, several in found.values()]
    pairs = list(found.values())
    holders = iter(_referrers.names(things, [things, found, largest, lists, pairs, *lists, *pairs, *largest]))
    result = []
    for address, (size, several) in largest:
        texts = [text for _ in several[:4] for text in next(holders)]
        kind = type(several[0])
        result.append({"address": address, "bytes": size, "type": f"{kind.__module__.split('.')[0]}.{kind.__name__}",
                       "holders": list(dict.fromkeys(texts))[:8]})
    return result


def collect(taken: str, referrers: "bool | int", natives: "Any" = None) -> "dict[str, Any] | None":
    """The view as a dictionary; None when no framework is in use, and no object has the address of live memory.
    `referrers`: True, False, or the number of objects up to which the heap is searched. `natives`: the library's
    functions for the graph of objects; None leaves it out."""
    torch, others = _in_use()
    without = torch is None and not others
    if without and (natives is None or not natives[3]()):
        return None
    with _graph.without_modes(torch):
        view = _collect(taken, referrers, natives, torch)
    return None if without and "graph" not in view else view


def without_frameworks(taken: str) -> "dict[str, Any]":
    """The view of a program that uses none."""
    return {"taken": taken, "caches": [], "pools": [], "objects": [], "unread": []}


def _in_use() -> "tuple[Any, bool]":
    """The torch module, or None, and whether another framework is in use."""
    torch = _readers.attempt(torch_in_use)
    return torch, bool(_readers.types_in_use()) or "jax._src.xla_bridge" in sys.modules


def graph(view: "dict[str, Any]", natives: "Any", known: "list[Any]") -> "dict[str, Any]":
    """The graph of objects alone, for a view without one. `known`: see _readers.known_arrays()."""
    torch, _ = _in_use()
    with _graph.without_modes(torch):
        return _object_graph(torch, view, natives, known)


def _object_graph(torch: "Any", view: "dict[str, Any]", natives: "Any", known: "list[Any]") -> "dict[str, Any]":
    """The graph of objects. Where it cannot be made, for a version of the framework that is not known, its problem:
    without a graph the report would say nothing of what keeps the memory."""
    lost: list[str] = []
    # Those of a CUDA graph's pool are the graph's.
    blocks = [(block["address"], block["bytes"]) for cache in view["caches"] for segment in cache["segments"]
              for block in segment["blocks"] if not segment["private_pool"]]
    found = _readers.attempt(_graph.object_graph, torch, natives, known, blocks, lost=lost, what="the objects")
    return {"problem": lost[0]} if lost else found


def _collect(taken: str, referrers: "bool | int", natives: "Any", torch: "Any") -> "dict[str, Any]":
    lost: list[str] = []
    view: dict[str, Any] = {"taken": taken, "caches": [], "pools": _readers.pools(lost), "objects": [], "unread": lost}
    cache = None
    if torch is not None:
        cache = _readers.attempt(torch_cache, torch, lost=lost, what="PyTorch's cache")
    if cache is not None:
        view["caches"].append(cache)
    if referrers:
        most = None if referrers is True else referrers
        view["objects"] = _readers.attempt(live_objects, torch, most, lost=lost, what="the largest tensors") or []
    if natives is not None:
        view["graph"] = _object_graph(torch, view, natives, _readers.known_arrays(lost))
    return view


_ESCAPES = {**{number: f"\\u{number:04x}" for number in range(32)}, ord('"'): '\\"', ord("\\"): "\\\\"}


def _json(value: "Any", parts: "list[str]") -> None:
    """Appends the JSON text of a value to `parts`. The module json may not be imported for the program."""
    if isinstance(value, str):
        parts.append(f'"{value.translate(_ESCAPES)}"')
    elif isinstance(value, dict):
        separator = "{"
        for key, item in value.items():
            parts.append(f'{separator}"{key}":')
            _json(item, parts)
            separator = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list):
        separator = "["
        for item in value:
            parts.append(separator)
            _json(item, parts)
            separator = ","
        parts.append("]" if value else "[]")
    else:
        parts.append(str(int(value)))


def text(view: "dict[str, Any]", ran_out: "dict[str, Any] | None" = None) -> bytes:
    """The file's content, from a view of collect() and perhaps one of a moment at which memory ran out."""
    whole = {"schema": SCHEMA, "pid": posix.getpid(), **view}
    if ran_out is not None:
        whole["ran_out"] = ran_out
    parts: list[str] = []
    _json(whole, parts)
    return "".join(parts).encode("utf-8", "replace")
