// Turns linker symbols into the names that people wrote.
#pragma once

#include <string>

namespace culprit {

// "_ZN6Solver4stepEi" -> "Solver::step": demangled, without parameters, return type, "[clone .cold]" and the like. What
// is not a C++ symbol comes back unchanged, without the compiler's suffixes (.part.0, .constprop.0, .isra.0, .cold).
std::string function_name(const char* symbol);

// The name part of a demangled signature: "void f<int>(int) const" -> "f<int>".
std::string strip_signature(std::string signature);

}  // namespace culprit
