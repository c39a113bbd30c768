// References that the collector does not know: those of NumPy's arrays, to their elements and to the object whose
// memory they show. A replay buffer, or a column of a data frame, is such an array.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/inside_python/interpreter.h"
#include "interpose/inside_python/object_layout.h"

namespace culprit {

// Arrays of exactly one type, with the layout of numpy/core/include/numpy/ndarraytypes.h (PyArrayObject_fields), which
// is a part of NumPy's binary interface. _graph.py has compared it with an array of its own.
class ObjectArrays {
 public:
  // nullptr, or None: there are none.
  void set_type(PyObject* type) { type_ = type; }

  bool is_one(PyObject* object) const { return type_ != nullptr && type_of(object) == type_; }

  // Whether an object is an array with a reference that may lead to memory.
  bool leads_on(PyObject* object) const {
    if (!is_one(object)) return false;
    PyObject* base = base_of_array(object);
    return base == nullptr ? has_objects(object) : is_one(base) || has_collector(base);
  }

  // Calls visit_one(OBJECT, argument) for each reference of an array, until that is not 0.
  template <typename Visit>
  void visit(PyObject* array, Visit visit_one, void* argument) const {
    PyObject* base = base_of_array(array);
    if (base != nullptr) {
      visit_one(base, argument);
      return;
    }
    if (!has_objects(array)) return;
    const auto* elements = reinterpret_cast<PyObject* const*>(field<std::uint64_t>(array, kData));
    const std::uint64_t count = count_of(array);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (elements[i] != nullptr && visit_one(elements[i], argument) != 0) return;
    }
  }

 private:
  static constexpr std::size_t kData = 16, kDimensionCount = 24, kDimensions = 32, kBase = 48, kElementType = 56;
  static constexpr std::size_t kFlags = 64, kTypeNumber = 28;  // the latter of an element's type (PyArray_Descr)
  static constexpr int kObjects = 17;                          // NPY_OBJECT
  static constexpr std::uint32_t kContiguous = 3, kOwnsData = 4, kMostDimensions = 64;

  static PyObject* base_of_array(PyObject* array) {
    return reinterpret_cast<PyObject*>(field<std::uint64_t>(array, kBase));
  }

  // The memory of an array with a base belongs to that one.
  static bool has_objects(PyObject* array) {
    const auto flags = field<std::uint32_t>(array, kFlags);
    const auto* type = reinterpret_cast<const void*>(field<std::uint64_t>(array, kElementType));
    return (flags & kOwnsData) != 0 && (flags & kContiguous) != 0 && type != nullptr &&
           field<int>(type, kTypeNumber) == kObjects;
  }

  static std::uint64_t count_of(PyObject* array) {
    const auto dimensions = field<std::uint32_t>(array, kDimensionCount);
    const auto* sizes = reinterpret_cast<const std::uint64_t*>(field<std::uint64_t>(array, kDimensions));
    std::uint64_t count = 1;
    for (std::uint32_t i = 0; i < dimensions && i < kMostDimensions; ++i) count *= sizes[i];
    return count;
  }

  PyObject* type_ = nullptr;
};

}  // namespace culprit
