// Memory that no variable of Python leads to: the variables of libraries, and the objects of Python, whose C++ objects
// have it (causes/native_holders.h).
#pragma once

#include "interpose/inside_python/interpreter.h"

namespace culprit {

// native_holders(EVERYTHING, BLOCKS, OBJECTS, FRAME_TYPE) -> (STEPS, VARIABLES, PATHS, HOLDERS, HELD); None: nothing
// was found, or the search is switched off (CULPRIT_SCAN=off).
//
// EVERYTHING is a list of all objects. BLOCKS are the addresses of live blocks, bytes of 64-bit numbers, and OBJECTS a
// list of objects that C code has: 256 at most. FRAME_TYPE is the type of a frame. Nodes have numbers, the blocks
// first, then the objects. STEPS: bytes of pairs of 32-bit numbers, from a node to one that it leads to. VARIABLES:
// bytes of pairs of 64-bit numbers, a node and an address in the file of the module whose path is in PATHS, a list of
// bytes with one for each (empty: the program). HOLDERS: a list of objects, and HELD the node of each, bytes of 32-bit
// numbers. Needs the GIL.
PyObject* native_holders(PyObject* self, PyObject* arguments);

}  // namespace culprit
