// What a chain of Python frames looks like, as one number: what a known stack costs is mostly this, for each frame.
//
// A code object stands for itself in it by its version and the address of the instruction (3.12 and 3.13); in other
// interpreters by its address, the addresses of its name and table of lines, its first line, and the length and three
// words of that table.
#pragma once

#include <cstdint>

#include "interpose/cpython/python_layout.h"

namespace culprit {

// The number for the calling thread's frames, of which `frame` is the innermost and at most `depth` count; 0 when none
// of them is in Python code, or one looks like nothing that is a frame. Another layout, or another depth, makes other
// numbers.
using PythonHash = std::uint64_t (*)(const PythonLayout& layout, std::uint64_t frame, int depth);

// The function for this layout, of an interpreter of version `version` (PY_VERSION_HEX): faster for those whose offsets
// the compiler knows.
PythonHash python_hash(unsigned long version, const PythonLayout& layout);

}  // namespace culprit
