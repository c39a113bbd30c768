"""The memory that PyTorch gave cuBLAS and cuBLASLt to work in: blocks of its cache that no Python object leads to.

Nothing is called. The functions that return the maps with those blocks are exported (ATen/cuda/CUDAContextLight.h,
from PyTorch 1.12 on); their first instructions say where the map is, and whether it was made.
"""
TYPE_CHECKING = False  # the module typing may not be imported for the program
if TYPE_CHECKING:
    from typing import Any

_FUNCTIONS = (b"_ZN2at4cuda33cublas_handle_stream_to_workspaceEv",
              b"_ZN2at4cuda35cublaslt_handle_stream_to_workspaceEv")
_MOST_NODES = 4096
_ENDBR64 = b"\xf3\x0f\x1e\xfa"
_LOAD_GUARD = b"\x0f\xb6\x05"       # movzbl offset(%rip),%eax
_TEST_GUARD = b"\x84\xc0"           # test %al,%al
_LOAD_POINTER = b"\x48\x8b\x05"     # mov offset(%rip),%rax: the map is in the heap
_LOAD_ADDRESS = b"\x48\x8d\x05"     # lea offset(%rip),%rax: the map itself


def _bytes_at(words: "Any", address: int, count: int) -> bytes:
    return b"".join(word.to_bytes(8, "little") for word in words(address, (count + 7) // 8))[:count]


def _target(address: int, code: bytes, place: int) -> int:
    """Of an instruction with an offset to the next one at `place`, which is the last part of it."""
    return address + place + 4 + int.from_bytes(code[place:place + 4], "little", signed=True)


def _map_of(words: "Any", function: int) -> int:
    """The address of the std::map that the function returns; 0: it was not made yet, or the code is another one."""
    code = _bytes_at(words, function, 64)
    begin = 4 if code.startswith(_ENDBR64) else 0
    if code[begin:begin + 3] != _LOAD_GUARD or code[begin + 7:begin + 9] != _TEST_GUARD:
        return 0
    if _bytes_at(words, _target(function, code, begin + 3), 1) != b"\x01":
        return 0
    for load in _LOAD_POINTER, _LOAD_ADDRESS:
        place = code.find(load, begin + 9, begin + 24)
        if place > 0:
            found = _target(function, code, place + 3)
            return found if load == _LOAD_ADDRESS else (words(found, 1) or [0])[0]
    return 0


def _values(words: "Any", where: int) -> "list[int]":
    """The pointers in a std::map<std::tuple<void*, void*>, at::DataPtr> of libstdc++: a node has its color, its parent,
    two children, a key of two words, and the value, which begins with the pointer."""
    head = words(where, 6)
    found: list[int] = []
    queue = [head[2]] if len(head) == 6 and 0 < head[5] <= _MOST_NODES else []
    while queue and len(found) < _MOST_NODES:
        node = words(queue.pop(), 7)
        if len(node) == 7:
            found.append(node[6])
            queue += [child for child in node[2:4] if child != 0]
    return found if len(head) == 6 and len(found) == head[5] else []


def addresses(words: "Any", exported: "Any") -> "list[int]":
    """Of these blocks. `words`, `exported`: the library's functions."""
    functions = (exported(name) for name in _FUNCTIONS)
    maps = (_map_of(words, function) for function in functions if function != 0)
    return [address for where in maps if where != 0 for address in _values(words, where) if address != 0]
