// Invariants that hold whatever a program does. They are checked in the sanitized unit tests and in a second
// libculprit.so, build/checked/libculprit.so, which some process tests preload. The library that ships compiles the
// condition and does not evaluate it: an assertion costs it no instruction.
#pragma once

#ifdef CULPRIT_ASSERTIONS

namespace culprit {
// Writes the place to standard error and ends the process by SIGABRT. Async-signal-safe; system/assertion.cpp.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace culprit

#define CULPRIT_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::culprit::assertion_failed(#condition, __FILE__, __LINE__))

#else

#define CULPRIT_ASSERT(condition) static_cast<void>(sizeof((condition) ? 1 : 0))

#endif
