// Where the modules of the process have their exported functions.
#pragma once

#include "interpose/inside_python/interpreter.h"

namespace culprit {

// exported(NAME) -> the address of the first function or variable with this name (bytes) that a loaded module exports;
// 0: there is none. Does not wait for the loader. Needs the GIL.
PyObject* exported(PyObject* self, PyObject* arguments);

}  // namespace culprit
