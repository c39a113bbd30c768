// Reads a std::type_info as data: the target's C++ runtimes differ from ours, so our dynamic_cast and typeid do not
// work on its types. Layout: Itanium C++ ABI, "RTTI Layout".
#pragma once

#include <cstdint>

#include "interpose/owners/lsda.h"

namespace culprit {

// The mangled name of a type; nullptr for a null `type`.
const char* type_name(TypeInfo type);

// Whether a handler of `handler_type` catches a thrown `type` (nullptr = a foreign exception): 1 yes, 0 no, -1 not
// known (pointers that need a conversion). A null handler type is catch (...).
int is_caught_by(TypeInfo type, TypeInfo handler_type);

// The std::exception base of a thrown object of this type; nullptr unless there is exactly one.
const void* as_std_exception(TypeInfo type, const void* object);

// Calls what(), which is the target's code.
const char* what_of(const void* std_exception);

// Itanium C++ ABI, "Exception Handling", 2.2.1: the thrown object follows its header; a dependent exception (made by
// std::rethrow_exception) has a header of its own that names the object.
struct ThrownObject {
  const void* object;
  TypeInfo type;  // nullptr = a foreign exception
};
ThrownObject thrown_object(const void* unwind_exception);
// The type in the header in front of a thrown object.
TypeInfo type_of_object(const void* object);

}  // namespace culprit
