// The references between the objects of a Python heap, followed natively: the collector's own functions (tp_traverse)
// tell them, and a heap of millions of objects takes seconds and some hundred bytes for each object.
#pragma once

struct _object;
using PyObject = _object;  // CPython's own name for it

namespace culprit {

// heap_edges(everything, targets, extra, ends, most[, True[, arrays]]) -> (nodes, edges, outside[, raw]), or None.
//
// `everything`: a list, gc.get_objects(). `targets`: a list of objects. `extra`: a list of objects, each pair of them a
// reference that the collector does not know. `ends`: a list of objects whose own referrers are not looked for.
// `most`: the number of objects up to which the heap is searched. `arrays`: a type of arrays whose references are
// followed (object_arrays.h), or None.
//
// `nodes`: a list of the objects from which a target, or (with the last argument, which an older Python package does
// not pass) an object with the address of live GPU memory (raw_pointers.h), can be reached. `edges`: bytes, pairs of
// 32-bit indices into `nodes`, one for each reference between them. `outside`: bytes, a 32-bit number for each node:
// its references that are neither of objects in the heap nor of the arguments, as those of C code and of running
// functions. At most eight references to a class are from its own instances. `raw`: bytes, pairs of 64-bit numbers: the
// index of an object with such an address, and the address.
//
// None: the heap is too large, or there is no memory. Needs the GIL, in an interpreter that has one; calls no code of
// the program but the functions that the collector calls at any time.
PyObject* heap_edges(PyObject* self, PyObject* arguments);

// heap_objects(roots, most[, arrays]) -> a list of all objects that the collector tracks and that can be reached from
// the list `roots`, or None: gc.get_objects() leaves out those of gc.freeze(). Needs the GIL.
PyObject* heap_objects(PyObject* self, PyObject* arguments);

// words(address, count) -> a list of at most 64 words of eight bytes; empty where they cannot be read. Needs the GIL.
PyObject* read_words(PyObject* self, PyObject* arguments);

}  // namespace culprit
