// Turns linker symbols into source names.
#pragma once

#include <string>

namespace culprit::report {

// "_ZN6Solver4stepEi" -> "Solver::step": demangled, without parameters, return type, "[clone .cold]" and the like. A
// name that is not a C++ symbol only loses the compiler's suffixes (.part.0, .constprop.0, .isra.0, .cold).
std::string function_name(const char* symbol);

// "_ZZ5tablevE5cache" -> "table()::cache": demangled, without the compiler's suffixes of local names.
std::string variable_name(const char* symbol);

// The name of a type_info, "St13runtime_error" -> "std::runtime_error". Returned unchanged if it cannot be demangled.
std::string type_name(const std::string& mangled);

// The name part of a demangled signature: "void f<int>(int) const" -> "f<int>".
std::string strip_signature(std::string signature);

}  // namespace culprit::report
