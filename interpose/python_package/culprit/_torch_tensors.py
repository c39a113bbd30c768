"""The tensors of PyTorch: their memory, the graphs of autograd that computed them, and what those graphs saved.

No code of the program runs here. Tensors that autograd saved are found by the layout of its nodes (PyTorch's
torch/csrc/autograd/saved_variable.h), because reading them as attributes would call the program's hooks.
"""
from culprit import _readers, _referrers, _types

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

MOST_STEPS = 200_000  # nodes of autograd's graphs: each costs about 10 us
_CALIBRATED = 64
_MOST_WORDS = 64  # that the library reads at a time: of a sparse tensor, and of a node
_MOST_HOOKS = 16  # in one list of a node
_MOST_WITH_HOOKS = 20_000  # nodes that are searched for hooks: each costs about 50 us
_PACKED = " -> what a hook saved"
_HOST = 0  # c10::DeviceType
_WITHOUT_TENSORS = str, bytes, int, float, bool, type(None)


class Tensors:
    """PyTorch's tensors: their memory, and the graph that computed them."""

    def __init__(self, torch: "Any", words: "Any", devices: "tuple[int, ...]") -> None:
        self.words = words
        self.devices = devices  # numbers of c10::DeviceType
        self.strided = getattr(torch, "strided", None)
        self.base = torch.Tensor
        self.plain = torch.Tensor, getattr(getattr(torch, "nn", None), "Parameter", None)
        self.storage_type = getattr(torch, "UntypedStorage", None)
        self.types: set[type] = set()
        self.layout: tuple[int, int, int] | None = None  # storage in a tensor; address and size in a storage
        self.tables = 0, 0  # virtual tables of an ordinary tensor and of a storage
        self.seen: dict[int, Any] = {}
        self.getters: dict[type, tuple[Any, list[Any], Any]] = {}
        # Lists of objects, and beside them lists of what belongs to each: the library counts the references of a list.
        self.owners: list[Any] = []
        self.places: list[tuple[int, int]] = []  # address and bytes
        self.host_owners: list[Any] = []  # of memory of the host
        self.host_places: list[tuple[int, int]] = []
        self.ends: list[Any] = []  # references that the collector does not know: from, to, from, to, ...
        self.names: list[str] = []
        self.hidden = self.not_read = 0
        self.without_tensors = set(map(id, _WITHOUT_TENSORS))
        self.hooks: dict[int, Any] = {}  # dictionaries that may be those of nodes, by id
        self.searched = 0
        # Addresses in objects of C++ that may be those of Python objects, and the nodes that lead to them.
        self.wanted: dict[int, list[tuple[Any, str]]] = {}

    def _add_edge(self, source: "Any", target: "Any", name: str) -> None:
        self.ends += (source, target)
        self.names.append(name)

    def _add_owner(self, owner: "Any", address: int, size: int) -> None:
        self.owners.append(owner)
        self.places.append((address, size))

    def find_types(self, everything: "list[Any]") -> "set[type]":
        """The types of all tensors and storages there."""
        self.types = {kind for kind in set(map(type, everything))
                      if self._is_tensor(kind) or kind is self.storage_type}
        return self.types

    def _is_tensor(self, kind: type) -> bool:
        return any(base is self.base for base in _types.mro(kind))

    def _get(self, tensor: "Any", name: str) -> "Any":
        """An attribute as PyTorch's own class has it: a subclass may have an attribute of the program."""
        getter = _types.descriptor(self.base, name)
        get = getattr(type(getter), "__get__", None)
        return get(getter, tensor, self.base) if get is not None else object.__getattribute__(tensor, name)

    def is_node(self, kind: type) -> bool:
        """Whether a type is one of autograd's nodes."""
        return _types.of_c(kind, "next_functions") is not None and _types.of_c(kind, "metadata") is not None

    def add(self, found: "list[Any]", nodes: "list[Any]", everything: "list[Any]") -> None:
        """`found`: the objects of find_types(). `nodes`: those of autograd that Python's objects have, also without a
        tensor. `everything`: all objects."""
        tensors = [thing for thing in found if type(thing) is not self.storage_type]
        self._learn_layout([tensor for tensor in tensors if type(tensor) in self.plain])
        storages = [thing for thing in found if type(thing) is self.storage_type]
        for storage in storages if self.layout is not None else ():
            self._guarded(self._add_storage_alone, storage)
        queue: list[Any] = []
        grads: list[Any] = []
        for tensor in tensors:
            self._guarded(self._add_storage, tensor)
            self._guarded(self._add_graph_of, tensor, queue, grads)
        for node in nodes:
            if id(node) not in self.seen:
                self.seen[id(node)] = node
                queue.append(node)
        known = {id(tensor) for tensor in tensors}
        for grad in grads:
            if id(grad) not in known:
                known.add(id(grad))
                self._guarded(self._add_storage, grad)
        if queue:
            self._find_hooks(everything)
        while queue and len(self.seen) < MOST_STEPS:
            self._guarded(self._add_node, queue.pop(), queue)
        self.not_read += len(queue)
        self._find_wanted(everything)

    def _guarded(self, work: "Any", *arguments: "Any") -> None:
        """Some kinds of tensors have no storage, and some nodes are of an unknown version."""
        try:
            work(*arguments)
        except Exception as error:  # pylint: disable=broad-except
            if _referrers.is_of_a_signal_handler(error):
                raise
            # A subclass that wraps other tensors, or that has no size yet, has no memory of its own.
            if not self._is_tensor(type(arguments[0])) or type(arguments[0]) in self.plain:
                self.not_read += 1

    def _add_graph_of(self, tensor: "Any", queue: "list[Any]", grads: "list[Any]") -> None:
        if not self._get(tensor, "requires_grad"):
            return
        for name in "_backward_hooks", "_post_accumulate_grad_hooks":
            if _types.descriptor(self.base, name) is not None:
                hooks = self._get(tensor, name)
                if hooks is not None:
                    self._add_edge(tensor, hooks, f".{name}")
        is_leaf = self._get(tensor, "is_leaf")
        if is_leaf or self._get(tensor, "retains_grad"):
            grad = self._get(tensor, "grad")
            if grad is not None:
                self._add_edge(tensor, grad, ".grad")
                grads.append(grad)
        # The node of a view that was changed in place would be made anew.
        if not is_leaf and (not self._get(tensor, "_is_view")() or self._get(tensor, "_version") == 0):
            self._follow(tensor, self._get(tensor, "grad_fn"), " -> Tensor.grad_fn", queue)

    def _follow(self, source: "Any", node: "Any", name: str, queue: "list[Any]") -> None:
        if node is None:
            return
        self._add_edge(source, node, name)
        if id(node) not in self.seen:
            self.seen[id(node)] = node
            queue.append(node)

    def _add_storage_alone(self, storage: "Any") -> None:
        self._add_memory(storage, storage._cdata)  # pylint: disable=protected-access

    def _add_storage(self, tensor: "Any") -> None:
        if self._get(tensor, "layout") is not self.strided and self.layout is not None:
            self._add_parts(tensor)
            return
        storage = self._get(tensor, "untyped_storage")()
        if self.layout is None:
            if self._get(tensor, "is_cuda"):
                self._add_owner(tensor, storage.data_ptr(), storage.nbytes())
            return
        self._add_memory(tensor, storage._cdata)  # pylint: disable=protected-access

    def _add_parts(self, tensor: "Any") -> None:
        """A sparse tensor has others inside, of C++: those with the virtual tables of a tensor and of its storage."""
        assert self.layout is not None
        parts = 0
        for word in self.words(self._get(tensor, "_cdata"), _MOST_WORDS):
            inside = self.words(word, 8) if word > 0xffff and word % 8 == 0 else []
            storage = inside[self.layout[0] // 8] if inside and inside[0] == self.tables[0] else 0
            if storage != 0 and self.words(storage, 1) == [self.tables[1]]:
                self._add_memory(tensor, storage)
                parts += 1
        if parts == 0:
            self.not_read += 1

    def _add_memory(self, owner: "Any", storage: int) -> None:
        assert self.layout is not None
        _, address, size = self.layout
        words = self.words(storage, 12)
        if not words:
            self.not_read += 1
        elif words[address // 8] != 0:
            device = words[address // 8 + 3] & 0xff
            if device in self.devices:
                self._add_owner(owner, words[address // 8], words[size // 8])
            elif device == _HOST:
                self.host_owners.append(owner)
                self.host_places.append((words[address // 8], words[size // 8]))

    def _learn_layout(self, tensors: "list[Any]") -> None:
        """Where a tensor has its storage, and a storage its address, its device and its size: the places that hold for
        all tensors that are tried."""
        candidates: tuple[set[int], set[int], set[int]] | None = None
        tables: tuple[int, int] = (0, 0)
        tried = 0
        for tensor in tensors:
            if tried == _CALIBRATED:
                break
            # A tensor inside of torch.vmap() has no storage that Python may see, and one that is just made none at all.
            found = _readers.attempt(self._places_in, tensor)
            if found is None:
                continue
            tried += 1
            candidates = found if candidates is None else (
                candidates[0] & found[0], candidates[1] & found[1], candidates[2] & found[2])
            tables = self.words(tensor._cdata, 1)[0], self.words(tensor.untyped_storage()._cdata, 1)[0]
        if candidates is not None and all(candidates):
            self.layout = min(candidates[0]), min(candidates[1]), min(candidates[2])
            self.tables = tables

    def _places_in(self, tensor: "Any") -> "tuple[set[int], set[int], set[int]] | None":
        """The places of _learn_layout() that hold for this tensor; None: it tells nothing of them."""
        if tensor.layout is not self.strided:
            return None
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if address == 0:
            return None
        there = storage._cdata  # pylint: disable=protected-access
        inside, outside = self.words(there, 12), self.words(tensor._cdata, 8)  # pylint: disable=protected-access
        return ({8 * i for i, word in enumerate(outside) if word == there},
                {8 * i for i, word in enumerate(inside[:8]) if word == address
                 and (inside[i + 3] & 0xff == 1) == bool(tensor.is_cuda)},
                {8 * i for i, word in enumerate(inside) if word == size})

    def _getters_of(self, kind: type) -> "tuple[Any, list[Any], Any]":
        """For a type of autograd's nodes: the getters of the next nodes, of the saved tensors, and of a variable."""
        known = self.getters.get(kind)
        if known is None:
            names: set[str] = set()
            for base in _types.mro(kind):
                names |= {name for name in _types.attributes_of_type.__get__(base) if name.startswith("_raw_saved_")}
            saved = [getter for getter in (_types.of_c(kind, name) for name in sorted(names)) if getter is not None]
            known = self.getters[kind] = _types.of_c(kind, "next_functions"), saved, _types.of_c(kind, "variable")
        return known

    def _add_node(self, node: "Any", queue: "list[Any]") -> None:
        following, saved, variable = self._getters_of(type(node))
        if following is None:
            self.not_read += 1
            return
        if self.hooks and self.searched < _MOST_WITH_HOOKS:
            self.searched += 1
            self._add_hooks_of(node)
        for one in following.__get__(node) or ():
            self._follow(node, one[0], "", queue)
        leaf = variable.__get__(node) if variable is not None else None
        if leaf is not None and self._is_tensor(type(leaf)):
            self._add_edge(node, leaf, ".variable")
        for getter in saved:
            value = getter.__get__(node)
            for one in value if type(value) in (tuple, list) else (value,):
                if one is not None:
                    self._add_saved(node, one)

    def _add_saved(self, node: "Any", saved: "Any") -> None:
        """`saved` leads to a SavedVariable (an object of pybind11: the pointer follows the head of the object). Its
        fields: the tensor (8 bytes), two smart pointers (32), numbers and bits (8 bytes in PyTorch 2.15, 16 in 2.6, 24
        in 2.1), and the hooks. With hooks it has no tensor."""
        place = self.words(id(saved) + 16, 1)
        fields = self.words(place[0], 9) if place else []
        tensor = self.words(fields[0], 8) if fields and self.layout is not None else []
        if not tensor or self.layout is None:
            self.not_read += 1
        elif tensor[self.layout[0] // 8] != 0:
            self._add_memory(node, tensor[self.layout[0] // 8])
        else:
            hooks = [self.words(word, 8) or self.words(word, 4)
                     for word in fields[6:] if word > 0xffff and word % 8 == 0]
            if any(hooks):
                self._add_hidden(node, next(filter(None, hooks)))

    def _add_hidden(self, node: "Any", fields: "list[int]") -> None:
        """`fields`: those of the hooks (PyTorch's python_saved_variable_hooks.h): the virtual table, the functions that
        pack and unpack the tensor, and the packed object. In PyTorch 2.15 the interpreter follows each function."""
        in_pairs = len(fields) == 8 and fields[2] == fields[5] != 0
        functions, packed = ((fields[1], fields[4]), fields[7]) if in_pairs else (fields[1:3], fields[3])
        for function in functions:
            self._want(function, node, " -> a hook")
        kind = self.words(packed + 8, 1)
        if kind == [] or kind[0] not in self.without_tensors:
            self.hidden += 1
            self._want(packed, node, _PACKED)

    def _want(self, word: int, node: "Any", name: str) -> None:
        self.wanted.setdefault(word, []).append((node, name))

    def _find_hooks(self, everything: "list[Any]") -> None:
        """A dictionary of hooks has their numbers as its keys."""
        kinds = {kind for kind in set(map(type, everything)) if _types.type_name(kind) == "OrderedDict"}
        ordered = [thing for thing in everything if type(thing) in kinds] if kinds else []
        self.hooks = {id(thing): thing for thing in ordered
                      if type(next(dict.__iter__(thing), None)) is int}

    def _add_hooks_of(self, node: "Any") -> None:
        """A node has lists of objects of C++ with the dictionaries of hooks. Its address follows the head of its Python
        object."""
        place = self.words(id(node) + 16, 1)
        fields = self.words(place[0], _MOST_WORDS) if place else []
        for begin, end, last in zip(fields, fields[1:], fields[2:]):
            if not (0xffff < begin < end <= last and end - begin <= 8 * _MOST_HOOKS and begin % 8 == end % 8 == 0):
                continue
            for hook in self.words(begin, (end - begin) // 8):
                found = self.hooks.get((self.words(hook, 2) or (0, 0))[1])
                if found is not None:
                    self._add_edge(node, found, " -> a hook")

    def _find_wanted(self, everything: "list[Any]") -> None:
        """Adds the references of C++ to objects that are there. A saved tensor behind hooks is known when its packed
        object is."""
        if not self.wanted:
            return
        for thing in everything:
            for node, name in self.wanted.get(id(thing), ()):
                self._add_edge(node, thing, name)
                self.hidden -= name == _PACKED
