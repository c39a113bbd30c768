// A hash of a chain of Python frames. Its cost per frame is most of the cost of a known stack.
//
// The hash of a frame covers the code object's version and the address of the instruction (3.12 and 3.13). In other
// interpreters it covers the code object's address, the addresses of its name and line table, its first line, and the
// length and three words of that table.
#pragma once

#include <cstdint>

#include "interpose/python_stacks/python_layout.h"

namespace culprit {

// The hash of the calling thread's frames from `frame`, the innermost, at most `depth` of them; 0 when no frame is in
// Python code, or one is implausible. It depends on the layout and the depth.
using PythonHash = std::uint64_t (*)(const PythonLayout& layout, std::uint64_t frame, int depth);

// The function for this layout, of an interpreter of version `version` (PY_VERSION_HEX): faster for versions whose
// offsets are compile-time constants.
PythonHash python_hash(unsigned long version, const PythonLayout& layout);

}  // namespace culprit
