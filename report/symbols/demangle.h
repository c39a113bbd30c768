// Turns linker symbols into the names that people wrote.
#pragma once

#include <string>

namespace culprit {

// "_ZN6Solver4stepEi" -> "Solver::step": demangled, without parameters, return type, "[clone .cold]" and the like. What
// is not a C++ symbol comes back unchanged, without the compiler's suffixes (.part.0, .constprop.0, .isra.0, .cold).
std::string function_name(const char* symbol);

// "_ZZ5tablevE5cache" -> "table()::cache": demangled, nothing taken away but the compiler's suffixes of local names.
std::string variable_name(const char* symbol);

// "St13runtime_error", a name as a type_info has it -> "std::runtime_error". What cannot be demangled comes back as is.
std::string type_name(const std::string& mangled);

// The name part of a demangled signature: "void f<int>(int) const" -> "f<int>".
std::string strip_signature(std::string signature);

}  // namespace culprit
