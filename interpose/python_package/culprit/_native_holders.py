"""Memory that no variable of Python leads to: live blocks of PyTorch's cache that no tensor of Python has, and objects
that C code alone has. libculprit.so searches for the variables of libraries, and for the objects of Python, whose C++
objects lead there (interpose/causes/native_holders.h).
"""
import sys

TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

    from culprit import _graph

# Flags of a node, as in _graph.py.
_STORAGE, _NATIVE = 1 << 8, 1 << 9
_MOST = 128  # blocks, and objects
_SHARE = 100  # blocks with less than one part in this of the live memory are not searched for


class Found:
    """Nodes are numbers of the library: `blocks` and `objects` first (lists of addresses). `used` has those of C++
    objects and of blocks; `holders` the ids of objects and the nodes that they lead to."""

    def __init__(self, blocks: "list[int]", objects: "list[int]", parts: "Any") -> None:
        steps, variables, files, holders, held = parts
        self.blocks = blocks
        self.objects = objects
        numbers = list(memoryview(steps).cast("I"))
        self.steps = list(zip(numbers[::2], numbers[1::2]))
        numbers = list(memoryview(variables).cast("Q"))
        names = sys.getfilesystemencoding()
        self.variables = sorted({(node, path.decode(names, "replace"), address, build_id.hex())
                                 for node, address, (path, build_id) in zip(numbers[::2], numbers[1::2], files)})
        self.holders = sorted({(id(holder), node) for holder, node in zip(holders, memoryview(held).cast("I"))})
        used = {node for step in self.steps for node in step}
        used |= {node for node, *_ in self.variables} | {node for _, node in self.holders}
        self.used = sorted(node for node in used if not len(blocks) <= node < len(blocks) + len(objects))


def _without_owner(blocks: "list[tuple[int, int]]", seen: "list[int]") -> "list[int]":
    """The largest blocks that contain none of the addresses `seen`."""
    places = [*sorted(seen), 1 << 64]
    left = []
    at = 0
    for address, size in sorted(blocks):
        while places[at] < address:
            at += 1
        if places[at] >= address + size:
            left.append((size, address))
    if _SHARE * sum(size for size, _ in left) < sum(size for _, size in blocks):
        return []
    return [address for _, address in sorted(left, reverse=True)[:_MOST]]


def _reached(begin: "Any", sources: "list[int]", targets: "list[int]") -> "set[int]":
    """The nodes to which edges lead from those of `begin`."""
    following: dict[int, list[int]] = {}
    for source, target in zip(sources, targets):
        following.setdefault(source, []).append(target)
    reached = set(begin)
    queue = list(reached)
    while queue:
        more = [node for node in following.get(queue.pop(), ()) if node not in reached]
        reached.update(more)
        queue += more
    return reached


def of_c_code(graph: "_graph._Graph", things: "list[Any]", owners: "list[Any]",
              places: "list[tuple[int, int]]") -> "list[Any]":
    """Those of `things`, the nodes of a graph, that only C code has, and that lead to memory of `owners` which no
    variable leads to: those with the most memory of their own first."""
    held = {*graph.edges[1::3], *graph.variables[::3]}
    outside = [number for number in range(len(things)) if number not in held and graph.nodes[4 * number + 3]
               and not graph.nodes[4 * number + 1] & _STORAGE and id(things[number]) in graph.index]
    if not outside:
        return []
    reached = _reached(graph.variables[::3], graph.edges[::3], graph.edges[1::3])
    numbers = [graph.index.get(id(owner), -1) for owner in owners]
    # A tensor that autograd saved is reached by the graph, whether its object is or not.
    known = {address for number, (address, _) in zip(numbers, places) if number in reached}
    sizes = {number: size for number, (address, size) in zip(numbers, places)
             if number >= 0 and number not in reached and address not in known}
    before = _reached(sizes, graph.edges[1::3], graph.edges[::3])
    outside = sorted((number for number in outside if number in before), key=lambda number: -sizes.get(number, 0))
    return [things[number] for number in outside]


def add_to(graph: "_graph._Graph", found: Found, bytes_of: "dict[int, int]") -> "dict[str, list[int]]":
    """Makes each object of C++ a node. `bytes_of`: the bytes of each block. Returns additions to the graph's lists of
    memory and of libraries' variables."""
    first = len(graph.nodes) // 4
    numbers = {node: first + place for place, node in enumerate(found.used)}
    for place, thing in enumerate(found.objects):
        numbers[len(found.blocks) + place] = graph.index[thing]
    graph.nodes += (graph.string("C++ object"), _NATIVE, 0, 0) * len(found.used)
    for start, end in found.steps:
        graph.edges += (numbers[start], numbers[end], graph.string(""))
    for holder, node in found.holders:
        if holder in graph.index:
            graph.edges += (graph.index[holder], numbers[node], graph.string(" -> C++ objects"))
    memory: list[int] = []
    for node in found.used:
        if node < len(found.blocks):
            memory += (numbers[node], found.blocks[node], bytes_of[found.blocks[node]])
    variables: list[int] = []
    build_ids: list[int] = []
    for node, path, address, build_id in found.variables:
        variables += (numbers[node], graph.string(path), address)
        build_ids.append(graph.string(build_id))
    return {"memory": memory, "pools": [graph.string("torch")] * (len(memory) // 3), "native_variables": variables,
            "native_build_ids": build_ids}


def find(native_holders: "Any", everything: "list[Any]", blocks: "list[tuple[int, int]]", seen: "list[int]",
         objects: "list[Any]") -> "tuple[Found, list[Any]] | None":
    """`seen`: addresses in blocks whose owners are known. `objects`: those that C code has, the most important first.
    Returns also the objects of Python that lead there. None: nothing was searched for, or found."""
    largest = _without_owner(blocks, seen)
    del objects[_MOST:]
    if not largest and not objects:
        return None
    addresses = b"".join(address.to_bytes(8, sys.byteorder) for address in largest)
    parts = native_holders(everything, addresses, objects, type(sys._getframe()))
    return None if parts is None else (Found(largest, list(map(id, objects)), parts), parts[3])
