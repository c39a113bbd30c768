// Fields of CPython's objects and types that are read in memory: Include/object.h and Include/cpython/object.h, the
// same in CPython 3.9 to 3.14 with a GIL on 64-bit machines. All functions need the GIL, and an object that lives.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/inside_python/interpreter.h"

namespace culprit {

constexpr std::uint64_t kHasCollector = 1U << 14;  // Py_TPFLAGS_HAVE_GC
constexpr std::uint64_t kIsInteger = 1U << 24;     // of int, or of a class below it
constexpr std::uint64_t kTupleOrDict = (1U << 26) | (1U << 29);
// Of list, tuple, bytes, str, dict, type, or of a class below it.
constexpr std::uint64_t kIsBuiltIn =
    (1U << 25) | (1U << 26) | (1U << 27) | (1U << 28) | (1U << 29) | (std::uint64_t{1} << 31);

template <typename T>
T field(const void* object, std::size_t offset) {
  T value;
  __builtin_memcpy(&value, static_cast<const char*>(object) + offset, sizeof(value));
  return value;
}

constexpr std::size_t kHeadBytes = 16;  // PyGC_Head
inline PyObject* type_of(PyObject* object) { return reinterpret_cast<PyObject*>(field<std::uint64_t>(object, 8)); }
inline std::uint64_t flags_of(PyObject* object) { return field<std::uint64_t>(type_of(object), 168); }
inline bool has_collector(PyObject* object) { return (flags_of(object) & kHasCollector) != 0; }

// Of a type: its name, the bytes of an object of it (without the items of one that has any), the address of the
// function that ends one, the class above it.
inline const char* type_name(PyObject* type) { return reinterpret_cast<const char*>(field<std::uint64_t>(type, 24)); }
inline std::uint64_t size_of(PyObject* type) { return field<std::uint64_t>(type, 32); }
inline std::uint64_t deallocator_of(PyObject* type) { return field<std::uint64_t>(type, 48); }
inline PyObject* base_of(PyObject* type) { return reinterpret_cast<PyObject*>(field<std::uint64_t>(type, 256)); }

// The fields of an object that follow its head: no items, and so many words at most.
constexpr std::size_t kFirstField = 16;
constexpr std::uint64_t kMostFields = 64;
inline const std::uint64_t* fields_of(PyObject* object) {
  return reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const char*>(object) + kFirstField);
}
inline std::uint64_t field_count(PyObject* object) {
  const std::uint64_t bytes = size_of(type_of(object));
  const std::uint64_t count = bytes <= kFirstField ? 0 : (bytes - kFirstField) / sizeof(std::uint64_t);
  return count < kMostFields ? count : kMostFields;
}

// Of a type: the function that visits the references of an object, and the one that says whether the collector knows
// an object of it.
constexpr std::size_t kTraverseOffset = 184;
constexpr std::size_t kIsCollectedOffset = 328;

using VisitFunction = int (*)(PyObject*, void*);

// Whether the collector knows objects like this one. It does not know a static type.
inline bool is_collected(PyObject* object) {
  if (!has_collector(object)) return false;
  const auto own_answer = field<int (*)(PyObject*)>(type_of(object), kIsCollectedOffset);
  return own_answer == nullptr || own_answer(object) != 0;
}

// The head that the collector has in front of an object begins with a pointer (PyGC_Head): 0 = it is not tracked.
inline bool is_tracked(PyObject* object) {
  return is_collected(object) && field<std::uint64_t>(reinterpret_cast<const char*>(object) - kHeadBytes, 0) != 0;
}

// Calls visit(REFERENCE, argument) for the references of an object that the collector knows, until it is not 0.
inline void traverse(PyObject* object, VisitFunction visit, void* argument) {
  if (!is_collected(object)) return;
  const auto function = field<int (*)(PyObject*, VisitFunction, void*)>(type_of(object), kTraverseOffset);
  if (function != nullptr) function(object, visit, argument);
}

}  // namespace culprit
