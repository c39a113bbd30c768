// Python objects that are, or contain, the address of live GPU memory: numbers, ctypes values, and the objects of C
// extensions (CuPy's MemoryPointer, cuda-python's CUdeviceptr), whatever their types are called.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"
#include "interpose/inside_python/interpreter.h"

namespace culprit {

class RawPointers {
 public:
  RawPointers() = default;
  ~RawPointers();
  RawPointers(const RawPointers&) = delete;
  RawPointers& operator=(const RawPointers&) = delete;

  // Learns which memory is live. Nothing is found afterwards where the process does not record, where the search for
  // holders is switched off (CULPRIT_SCAN=off), or without memory. Needs the GIL.
  void collect();
  // The number of pieces of live memory.
  std::uint64_t count() const { return handles_.size(); }

  // The handle of live memory that the object is, or contains; 0: none. Reads the object's memory and calls nothing:
  // an integer's digits, the fields of the object itself, and the bytes that a ctypes object points to (4 KiB at most).
  // Needs the GIL.
  std::uint64_t in(PyObject* object) const;

  // The size of live memory with this handle in bytes; 0: none has it.
  std::uint64_t bytes_of(std::uint64_t handle) const;

 private:
  std::uint64_t in_integer(PyObject* object) const;
  std::uint64_t in_words(const std::uint64_t* words, std::uint64_t count) const;
  std::uint64_t in_memory_of_ctypes(PyObject* object) const;

  HandleSet handles_ = {};
  bool tagged_digits_ = false;  // from CPython 3.12 on the number of digits is in the upper bits of its field
};

// pointers() -> the number of pieces of live memory. Needs the GIL.
PyObject* count_pointers(PyObject* self, PyObject* arguments);
// memory_sizes(ADDRESSES) -> SIZES: both bytes, of 64-bit numbers. The size of the live memory at each address; 0: none
// begins there. Needs the GIL.
PyObject* memory_sizes(PyObject* self, PyObject* arguments);

}  // namespace culprit
