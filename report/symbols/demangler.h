// Demangles within limits of time and memory.
//
// A mangled name may refer to its own parts, and parts to parts: each reference doubles the text, so that 186
// characters can stand for gigabytes. The C++ runtime's demangler has no limit and cannot be stopped. A name with many
// references is therefore given to a process that can be killed; all others, nearly all, are demangled right here.
#pragma once

#include <string>

namespace culprit::report {

// The demangled name; empty when the symbol is no mangled name, or would need more than 64 KiB, 0.3 seconds or 64 MiB,
// and for all but simple names after 3 seconds of processor time in which hardly any were demangled.
// Thread-safe. Never throws but for lack of memory.
std::string demangled(const char* symbol);

}  // namespace culprit::report
