// The public interface of the CPython interpreter in this process, found in the symbol table of its module: without
// dlsym(), without the loader's lock, and without a dependency on libpython.
#pragma once

#include <cstdint>

#include "interpose/system/private_array.h"

struct _object;
using PyObject = _object;  // CPython's own name for it

namespace culprit {

struct Interpreter {
#define PYTHON_FUNCTION(name, result, parameters) result(*name) parameters;
#define PYTHON_OPTIONAL(name, result, parameters) result(*name) parameters;
#define PYTHON_VARIABLE(name) PyObject** name;
#include "interpose/inside_python/interpreter.def"
  std::uint64_t* runtime;  // _PyRuntime, the state that all interpreters share
  std::uint64_t runtime_words;

  PyObject* none() const { return reinterpret_cast<PyObject*>(_Py_NoneStruct); }
  bool is_ending() const {
    return Py_IsFinalizing != nullptr ? Py_IsFinalizing() != 0 : _Py_IsFinalizing == nullptr || _Py_IsFinalizing() != 0;
  }
};

// The interpreter; nullptr when the process has none, or one that hides its functions (a static build). The first
// success is kept. Thread-safe; on the tracker's own stack only.
const Interpreter* find_interpreter();

// The one that find_interpreter() found. Only after a success.
const Interpreter& the_interpreter();

// A new reference to None.
inline PyObject* new_none() {
  the_interpreter().Py_IncRef(the_interpreter().none());
  return the_interpreter().none();
}

// New bytes with the items of an array; nullptr: an error is set. Needs the GIL.
template <typename T>
PyObject* new_bytes(const PrivateArray<T>& array) {
  constexpr std::uint64_t kBytes = sizeof(T);
  return the_interpreter().PyBytes_FromStringAndSize(reinterpret_cast<const char*>(array.data()),
                                                     static_cast<long>(array.size() * kBytes));
}

// A reference that is given back at the end of its scope. Needs the GIL.
class PythonRef {
 public:
  PythonRef() : object_(nullptr) {}
  explicit PythonRef(PyObject* object) : object_(object) {}  // takes the reference over
  ~PythonRef() {
    if (object_ != nullptr) the_interpreter().Py_DecRef(object_);
  }
  PythonRef(const PythonRef&) = delete;
  PythonRef& operator=(const PythonRef&) = delete;
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  PyObject* object_;
};

}  // namespace culprit
