"""The part of the Python heap from which GPU memory can be reached: objects, the references between them with their
names, and the graphs of PyTorch's autograd. `culprit report` finds the variable that keeps each tensor in it.

The result of object_graph() is a dictionary for the view's file:

    {"strings": ["list", ".losses", ...],
     "nodes": [type, flags, length, outside, ...],   four numbers each; `type` is a string's number, `flags` see below
     "edges": [from, to, name, ...],                 three numbers each; the name of the step is a string's number
     "variables": [to, name, kind, ...],             a module's variable (0), or a local one of a running function (1)
     "memory": [node, address, bytes, ...],
     "pools": [pool, ...],                           for each memory "cupy:0" (framework and device), a string's number
     "raw": [node, address, ...],                    objects that are, or contain, the address of a live allocation
     "raw_bytes": [bytes, ...],                      the size of each such allocation
     "workspaces": [address, ...],                   blocks that PyTorch gave cuBLAS
     "native_variables": [node, path, address, ...], variables of libraries; the path of the file is a string's number
     "native_build_ids": [build ID, ...],            of each such file: a string's number, hex digits or ""
     "hidden": n, "not_read": n}                     saved tensors behind hooks, and those that could not be read
    {"problem": TEXT}                                where the heap was not searched

The step " -> its class" counts only where no variable has the class, and few instances have it. A name that begins with
"." or "[" follows the name before it; one that begins with " -> " is a step of its own; an
empty one is a step that a program has no name for. `length` is a container's, else 0. `outside` are references that are
neither of Python objects in the heap nor of this code, as those of C code.

No code of the program runs here. No attribute of the program's objects is read by getattr(): only dictionaries,
descriptors and containers of Python's own types are. `_torch_tensors.py` reads the tensors of PyTorch.
"""
import gc
import sys

from culprit import _native_holders, _readers, _referrers, _torch_tensors, _torch_workspaces, _types

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

MOST_OBJECTS = 20_000_000
MOST_NODES = 300_000  # of those from which GPU memory can be reached
_CONTAINER, _MODULE, _OPTIMIZER, _TENSOR, _AUTOGRAD, _PARAMETERS, _RAISED, _CLASS, _STORAGE = (
    1 << bit for bit in range(9))
_LONGEST = 60
_ITS_CLASS = " -> its class"
_FROZEN_AT_START = 2000  # CPython 3.12 begins with 375 such objects; a program that has begun has thousands more
_LENGTHS: "dict[type, Any]" = {kind: kind.__len__ for kind in (list, tuple, set, frozenset, dict)}


def _key_text(key: object) -> str:
    if type(key) is str:
        return repr(key if len(key) <= _LONGEST else key[:_LONGEST] + "...")
    return str(key) if type(key) is int and abs(key) < 1 << 63 else "*"


def _items_of_deque(thing: "Any") -> "list[Any]":
    return [one for one in gc.get_referents(thing) if one is not type(thing)]


class _Graph:
    """`arrays`: see _readers.arrays_of_numpy()."""

    def __init__(self, torch: "Any", arrays: "Any") -> None:
        self.strings: dict[str, int] = {}
        self.nodes: list[int] = []
        self.edges: list[int] = []
        self.variables: list[int] = []
        self.index: dict[int, int] = {}  # by id
        self.named: set[tuple[int, int]] = set()
        self.owned: dict[int, int] = {}  # dictionaries: _CLASS, _PARAMETERS, or another instance's own (0)
        self.of_modules: set[int] = set()  # those of torch.nn.Module
        self.parts: dict[int, str] = {}  # tuples and dictionaries of one object: the name of a step there
        self.tables: set[int] = set()  # those of an enum's class, whose members are attributes, too
        self.slots: dict[type, list[tuple[str, Any]]] = {}
        self.kinds: dict[type, tuple[int, int]] = {}
        nn, optim = getattr(torch, "nn", None), getattr(torch, "optim", None)
        self.module = getattr(nn, "Module", None)
        self.optimizer = getattr(optim, "Optimizer", None)
        self.tensor = getattr(torch, "Tensor", None)
        self.storage = getattr(torch, "UntypedStorage", None)
        self.local = getattr(sys.modules.get("_thread"), "_local", None)
        self.arrays = arrays

    def string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _kind(self, kind: type) -> "tuple[int, int]":
        known = self.kinds.get(kind)
        if known is None:
            bases = _types.mro(kind)
            flags = 0
            for base, flag in ((self.module, _MODULE), (self.optimizer, _OPTIMIZER), (self.tensor, _TENSOR),
                               (BaseException, _RAISED), (type, _CLASS), (self.storage, _STORAGE)):
                if base is not None and any(one is base for one in bases):
                    flags |= flag
            if any(base in _LENGTHS for base in bases) or _types.type_name(kind) == "deque" or kind is self.arrays:
                flags |= _CONTAINER
            known = self.kinds[kind] = self.string(_types.type_name(kind)), flags
        return known

    def _length(self, thing: "Any", kind: type) -> int:
        """Of a container, by the function of Python's own type, or of NumPy's."""
        if kind is self.arrays:
            return int(thing.size)
        for base in _types.mro(kind):
            if base in _LENGTHS:
                number: int = _LENGTHS[base](thing)
                return number
        return len(_items_of_deque(thing))

    def add_nodes(self, things: "list[Any]", outside: "Any", autograd: "dict[int, Any]") -> None:
        self.index = {id(thing): number for number, thing in enumerate(things)}
        for thing, count in zip(things, outside):
            kind = type(thing)
            text, flags = self._kind(kind)
            if kind is _referrers._Function and count:  # perhaps a callback that C code alone has
                text = self.string(f"function {thing.__qualname__}"[:_LONGEST])
            if id(thing) in autograd:
                flags |= _AUTOGRAD
            self.nodes += (text, flags, self._length(thing, kind) if flags & _CONTAINER else 0, count)

    def edge(self, source: "Any", target: "Any", name: str) -> None:
        """An edge that `name` belongs to; nothing where the target does not lead to GPU memory."""
        number = self.index.get(id(target))
        if number is None:
            return
        start = self.index[id(source)]
        self.named.add((start, number))
        self.edges += (start, number, self.string(name))

    def name_steps(self, things: "list[Any]", ends: "set[int]") -> None:
        """Owners come before the tuples and dictionaries that are a part of them."""
        late = []
        for thing in things:
            if type(thing) is _referrers._Function:
                self._name_function(thing)
        for thing in things:
            kind = type(thing)
            if id(thing) in ends or kind is _referrers._Function:
                continue
            if kind is dict or dict in _types.mro(kind):
                late.append(thing)
            else:
                self._name_steps_of(thing, kind)
        for thing in late:
            flags = self.owned.get(id(thing))
            number = self.index[id(thing)]
            part = self.parts.get(id(thing))
            if id(thing) in self.tables:
                self._leave_out(thing, (*dict.keys(thing), *dict.values(thing)))
                continue
            self.nodes[4 * number + 1] |= flags or 0
            if flags is not None:
                self.nodes[4 * number + 1] &= ~_CONTAINER
            for key, value in list(dict.items(thing)):
                if id(value) in self.index:
                    text = f"[{_key_text(key)}]" if flags is None or type(key) is not str \
                        else self._attribute(key, id(thing) in self.of_modules)
                    self.edge(thing, value, text if part is None else part)
                if id(key) in self.index:
                    self.edge(thing, key, " -> a key of it")

    def _name_steps_of(self, thing: "Any", kind: type) -> None:
        bases = _types.mro(kind)
        if list in bases or tuple in bases or _types.type_name(kind) == "deque":
            iterate = list.__iter__ if list in bases else tuple.__iter__ if tuple in bases else _items_of_deque
            name = self.parts.get(id(thing))
            if id(thing) in self.tables:
                self._leave_out(thing, iterate(thing))
                return
            if name is not None:
                self.nodes[4 * self.index[id(thing)] + 1] &= ~_CONTAINER
            for place, value in enumerate(iterate(thing)):
                if id(value) in self.index:
                    self.edge(thing, value, f"[{place}]" if name is None else name)
        flags = self._kind(kind)[1]
        if flags & _CLASS:
            attributes = gc.get_referents(_types.attributes_of_type.__get__(thing))
            if attributes and id(attributes[0]) in self.index:
                self.owned[id(attributes[0])] = 0
                self.edge(thing, attributes[0], "")
                self._find_tables(attributes[0])
            return
        if self.local is not None and self.local in bases:
            self._name_local(thing)
        if kind is _referrers._Traceback:
            frame = thing.tb_frame
            self.edge(thing, frame, f" -> {frame.f_code.co_name}() line {thing.tb_lineno}")
            return
        self._name_suspended(thing, kind)
        self._name_attributes(thing, kind, flags)
        if _types.type_name(kind) == "frame":
            self._name_locals(thing, thing, "")
        elif _types.type_name(kind) == "_lru_cache_wrapper":
            for value in gc.get_referents(thing):
                self.edge(thing, value, " -> its cache")

    def _leave_out(self, thing: "Any", targets: "Any") -> None:
        """No steps from an object to these."""
        start = self.index[id(thing)]
        self.named.update((start, self.index[id(target)]) for target in targets if id(target) in self.index)

    def _find_tables(self, attributes: "dict[str, Any]") -> None:
        """Of an enum's class: each member is an attribute as well."""
        members = attributes.get("_member_map_")
        if type(members) is dict and all(name in attributes for name in members):
            names = "_member_map_", "_value2member_map_", "_unhashable_values_", "_hashable_values_"
            self.tables.update(id(attributes[name]) for name in names if name in attributes)

    def _name_local(self, local: "Any") -> None:
        """A threading.local has a dictionary with one of attributes for each thread."""
        for threads in gc.get_referents(local):
            if type(threads) is dict and all(type(attributes) is dict for attributes in threads.values()):
                self.edge(local, threads, "")
                self.owned[id(threads)] = 0
                self.parts[id(threads)] = ""
                self.owned.update((id(attributes), 0) for attributes in threads.values())

    @staticmethod
    def _attribute(key: str, of_module: "int | bool") -> str:
        """The name of an attribute, as the program writes it: `net.weight`, and `layers[0]` for a part of a module."""
        if of_module and key in ("_parameters", "_buffers", "_modules"):
            return ""
        return f"[{key}]" if key.isdigit() else f".{key}"[:_LONGEST]

    def _name_attributes(self, thing: "Any", kind: type, flags: int) -> None:
        variables = _types.read(thing, "__dict__")
        if type(variables) is dict:
            if id(variables) in self.index:
                self.owned[id(variables)] = 0
                if flags & _MODULE:
                    self.of_modules.add(id(variables))
                self.edge(thing, variables, "")
            for key, value in list(variables.items()):
                if id(variables) not in self.index and type(key) is str:
                    self.edge(thing, value, self._attribute(key, flags & _MODULE))
                # An OrderedDict up to PyTorch 2.4.
                of_module = flags & _MODULE and key in ("_parameters", "_buffers", "_modules")
                if of_module and dict in _types.mro(type(value)):
                    self.owned[id(value)] = 0 if key == "_modules" else _PARAMETERS
        if kind not in self.slots:
            self.slots[kind] = [(name, found) for base in _types.mro(kind)
                                for name, found in list(_types.attributes_of_type.__get__(base).items())
                                if type(found) is _types.member and name != "__dict__"]
        for name, getter in self.slots[kind]:
            try:
                value = getter.__get__(thing)
            except Exception:  # pylint: disable=broad-except  # an empty slot
                continue
            self.edge(thing, value, f".{name}")
        if flags & _RAISED:
            # A group has its exceptions in its arguments, too.
            group = any(name == "exceptions" for name, _ in self.slots[kind])
            for name in ("__traceback__", "__cause__", "__context__") + (() if group else ("args",)):
                self.edge(thing, _types.read(thing, name), f".{name}")

    def _name_function(self, function: "Any") -> None:
        self.edge(function, function.__dict__, "")
        self.owned[id(function.__dict__)] = 0
        cells = function.__closure__ or ()
        self.edge(function, cells, "")
        self.parts[id(cells)] = ""
        for name, cell in zip(function.__code__.co_freevars, cells):
            if id(cell) not in self.index:
                continue
            try:
                self.edge(cell, cell.cell_contents, f" -> {name}, a variable of its closure")
            except ValueError:  # an empty cell
                pass
        self.edge(function, function.__defaults__, "")
        self.parts[id(function.__defaults__)] = " -> a default value"
        self.edge(function, function.__kwdefaults__, ".__kwdefaults__")

    def _name_locals(self, owner: "Any", frame: "Any", prefix: str) -> None:
        variables = _referrers._variables_of(frame)
        for key, value in variables.items():
            self.edge(owner, value, f"{prefix}: {key}")
        # On the frame's stack: a loop's iterator, which may have the last values, as zip() has.
        known = {id(value) for value in variables.values()}
        for value in gc.get_referents(owner):
            if id(value) in self.index and id(value) not in known and self._iterates(type(value)):
                self.edge(owner, value, f"{prefix}: an iterator")

    @staticmethod
    def _iterates(kind: type) -> bool:
        return any("__next__" in _types.attributes_of_type.__get__(base) for base in _types.mro(kind))

    def _name_suspended(self, thing: "Any", kind: type) -> None:
        for field in "gi_frame", "cr_frame", "ag_frame":
            frame = _types.read(thing, field) if _types.of_c(kind, field) is not None else None
            if frame is not None:
                where = f" -> {frame.f_code.co_name}() line {frame.f_lineno}"
                if id(frame) in self.index:  # up to Python 3.10 the collector sees the frame
                    self.edge(thing, frame, where)
                else:
                    self._name_locals(thing, frame, where)

    def result(self, owners: "list[Any]", places: "list[tuple[int, int]]", pools: "list[str]", raw: "list[int]",
               tensors: "Any", memory_sizes: "Any") -> "dict[str, Any]":
        """`raw`: pairs of an object's number and an address. `memory_sizes`: the library's function."""
        unsized = [address for address, size in places if size == 0]
        sizes = dict(zip(unsized, _sizes(memory_sizes, unsized)))
        memory: list[int] = []
        memory_pools: list[int] = []
        for owner, (address, size), pool in zip(owners, places, pools):
            number = self.index.get(id(owner))
            if number is not None:
                memory += (number, address, size or sizes.get(address, 0))
                memory_pools.append(self.string(pool))
        return {"strings": list(self.strings), "nodes": self.nodes, "edges": self.edges, "variables": self.variables,
                "memory": memory, "pools": memory_pools, "raw": raw, "raw_bytes": _sizes(memory_sizes, raw[1::2]),
                "hidden": tensors.hidden if tensors is not None else 0,
                "not_read": tensors.not_read if tensors is not None else 0}


def _sizes(memory_sizes: "Any", addresses: "list[int]") -> "list[int]":
    """Of live memory that begins at these addresses; 0: none does."""
    texts = [address.to_bytes(8, sys.byteorder) for address in addresses]
    return list(memoryview(memory_sizes(b"".join(texts))).cast("Q")) if texts else []


class _Nothing:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: "Any") -> None:
        pass


def without_modes(torch: "Any") -> "Any":
    """While this lasts, no __torch_function__ of the program is called: one of torch.set_default_device(), or one of
    the program's own modes."""
    guard = getattr(getattr(torch, "_C", None), "DisableTorchFunction", None)
    return guard() if guard is not None else _Nothing()


def _add_others(found: "list[tuple[Any, str, Any]]", known: "list[Any]", owners: "list[Any]",
                places: "list[tuple[int, int]]", pools: "list[str]") -> None:
    """Objects of other frameworks than PyTorch: the object, its framework, its reader."""
    for thing, framework, reader in found:
        place = _readers.attempt(reader, thing)
        if place is not None and place[0] != 0:
            owners.append(thing)
            places.append(place[:2])
            pools.append(":".join(map(str, (framework, *place[2:]))))
    for thing, pool, address, size in known:
        owners.append(thing)
        places.append((address, size))
        pools.append(pool)


def _add_pinned(tensors: "Any", memory_sizes: "Any", owners: "list[Any]", places: "list[tuple[int, int]]",
                pools: "list[str]") -> None:
    """PyTorch's tensors of the host whose memory is an allocation of CUDA's."""
    sizes = _sizes(memory_sizes, [address for address, _ in tensors.host_places])
    for owner, place, of_cuda in zip(tensors.host_owners, tensors.host_places, sizes):
        if of_cuda:
            owners.append(owner)
            places.append(place)
            pools.append("torch:host")
    tensors.host_owners.clear()  # the library counts the references of lists that it is given


def _add_context_variables(graph: _Graph, things: "list[Any]") -> None:
    """Of the contexts that threads are in. A copy of one is an object of the program: its variables are steps."""
    contexts = getattr(sys.modules.get("_contextvars"), "Context", None)
    for thing in things:
        if type(thing) is not contexts:
            continue
        entered = graph.nodes[4 * graph.index[id(thing)] + 3] != 0
        for variable, value in thing.items():
            number = graph.index.get(id(value))
            if number is not None and entered:
                graph.variables += (number, graph.string(f"{variable.name}, a context variable"), 0)
            elif number is not None:
                graph.edge(thing, value, f"[{variable.name}]"[:_LONGEST])


def _add_signal_handlers(graph: _Graph) -> None:
    """The interpreter's own table has them, which is no object."""
    signal = sys.modules["_signal"]
    numbers = {number: name for name, number in vars(signal).items()
               if name.startswith("SIG") and not name.startswith("SIG_") and type(number) is int}
    for number, name in numbers.items():
        place = graph.index.get(id(signal.getsignal(number)))
        if place is not None:
            graph.variables += (place, graph.string(f"the handler of {name}"), 0)


def _add_variables(graph: _Graph, things: "list[Any]", ends: "list[Any]", modules: "dict[int, str]") -> None:
    for end in ends:
        module = modules[id(end)]
        for key, value in list(end.items()):
            number = graph.index.get(id(value))
            if number is not None and type(key) is str:
                graph.variables += (number, graph.string(key if module == "__main__" else f"{module}.{key}"), 0)
    _add_context_variables(graph, things)
    _add_signal_handlers(graph)
    for frame in _referrers._Names._running_frames():
        for key, value in _referrers._variables_of(frame).items():
            number = graph.index.get(id(value))
            if number is not None:
                graph.variables += (number, graph.string(f"{frame.f_code.co_name}() line {frame.f_lineno}: {key}"), 1)


def _named_graph(torch: "Any", arrays: "Any", part: "Any", tensors: "Any", ends: "list[Any]",
                 modules: "dict[int, str]") -> _Graph:
    """`part`: of heap_edges()."""
    things, pairs, outside = part[:3]
    graph = _Graph(torch, arrays)
    graph.add_nodes(things, memoryview(outside).cast("I"), tensors.seen if tensors is not None else {})
    # _add_variables() has the variables of modules.
    end_ids = {id(end) for end in ends}
    end_numbers = {graph.index.pop(number) for number in end_ids if number in graph.index}
    extra = tensors.ends if tensors is not None else []
    for place, name in enumerate(tensors.names if tensors is not None else ()):
        if id(extra[2 * place]) in graph.index:
            graph.edge(extra[2 * place], extra[2 * place + 1], name)
    graph.name_steps(things, end_ids)
    numbers = memoryview(pairs).cast("I")
    for place in range(0, len(numbers), 2):
        if (numbers[place], numbers[place + 1]) not in graph.named and numbers[place + 1] not in end_numbers:
            of_class = things[numbers[place + 1]] is type(things[numbers[place]])
            graph.edges += (numbers[place], numbers[place + 1], graph.string(_ITS_CLASS if of_class else ""))
    _add_variables(graph, things, ends, modules)
    return graph


def _searched(torch: "Any", arrays: "Any", heap_edges: "Any", everything: "list[Any]", owners: "list[Any]",
              tensors: "Any", ends: "list[Any]", modules: "dict[int, str]") -> "tuple[Any, Any, str]":
    """The parts of heap_edges(), their graph, and why there is none. No closure: its cells would be objects, too."""
    extra = tensors.ends if tensors is not None else []
    part = heap_edges(everything, owners, extra, ends, MOST_OBJECTS, True, arrays)
    if part is None:
        return None, None, f"its {len(everything):,} objects were not searched: too many, or no memory for it"
    if len(part[0]) > MOST_NODES:
        return None, None, f"{len(part[0]):,} objects lead to it, which is too many"
    return part, _named_graph(torch, arrays, part, tensors, ends, modules), ""


def object_graph(torch: "Any", natives: "Any", known: "list[Any]", blocks: "list[tuple[int, int]]",
                 devices: "tuple[int, ...]" = (1,)) -> "dict[str, Any]":
    """`natives`: the library's functions heap_edges, heap_objects, words, pointers, memory_sizes, exported,
    native_holders. `known`: of _readers.known_arrays(). `blocks`: addresses and bytes of PyTorch's live blocks.
    `devices`: numbers of c10::DeviceType. A graph without strings: no GPU memory is there, or no object leads to it."""
    heap_edges, heap_objects, words, pointers, memory_sizes, exported, native_holders = natives
    arrays = _readers.attempt(_readers.arrays_of_numpy, words)
    everything = gc.get_objects()
    if gc.get_freeze_count() > _FROZEN_AT_START:  # those objects are not in that list
        roots = [*everything, sys.modules, *map(_referrers.variables_of_module, list(sys.modules.values()))]
        everything = heap_objects(roots, MOST_OBJECTS, arrays)
        del roots
        if everything is None:
            return {"problem": "the objects of gc.freeze() were not searched: too many, or no memory for it"}
    tensors = _torch_tensors.Tensors(torch, words, devices) if torch is not None else None
    owners: list[Any] = []
    places: list[tuple[int, int]] = []
    others = _readers.types_in_use()
    types = {*others, *(tensors.find_types(everything) if tensors is not None else ())}
    found = [thing for thing in everything if type(thing) in types]
    if tensors is not None:
        nodes = {kind for kind in set(map(type, everything)) if tensors.is_node(kind)}
        tensors.add([thing for thing in found if type(thing) in tensors.types],
                    [thing for thing in everything if type(thing) in nodes], everything)
        owners, places = tensors.owners, tensors.places
    pools = ["torch"] * len(owners)
    if tensors is not None:
        _add_pinned(tensors, memory_sizes, owners, places, pools)
    found = [(thing, *others[type(thing)]) for thing in found if type(thing) in others]
    _add_others(found, known, owners, places, pools)
    del found
    workspaces = (_readers.attempt(_torch_workspaces.addresses, words, exported) or []) if torch is not None else []
    nothing: dict[str, Any] = {"strings": [], "workspaces": workspaces}
    if tensors is not None and tensors.not_read and not owners:
        nothing = {"problem": "no tensor could be read"}
    if not owners and not blocks and not pointers():
        return nothing
    modules = _referrers._names_of_modules()
    dictionaries = map(_referrers.variables_of_module, list(sys.modules.values()))
    ends = list({id(variables): variables for variables in dictionaries if id(variables) in modules}.values())
    part, graph, problem = _searched(torch, arrays, heap_edges, everything, owners, tensors, ends, modules)
    if problem:
        return {"problem": problem}
    seen = [address for address, _ in places] + workspaces
    of_c_code = _native_holders.of_c_code(graph, part[0], owners, places)
    cpp = _native_holders.find(native_holders, everything, blocks, seen, of_c_code)
    del of_c_code
    if cpp is not None and any(id(holder) not in graph.index for holder in cpp[1]):
        # The library counts the references of lists that it is given: no other one may have these objects.
        owners += cpp[1]
        cpp = cpp[0], []
        del part, graph
        part, graph, problem = _searched(torch, arrays, heap_edges, everything, owners, tensors, ends, modules)
        if problem:
            return {"problem": problem}
    del everything
    if not part[0] and cpp is None:
        return nothing
    pointed = list(memoryview(part[3]).cast("Q")) if len(part) > 3 else []
    more = _native_holders.add_to(graph, cpp[0], dict(blocks)) if cpp is not None else {}
    result: dict[str, Any] = graph.result(owners, places, pools, pointed, tensors, memory_sizes)
    result["workspaces"] = workspaces
    for name, numbers in more.items():
        result[name] = result.get(name, []) + numbers
    return result
