// A text that the program handed to the driver, read before the driver has looked at it: it may refuse the call because
// of another argument, and the text may then be any address.
#pragma once

#include <cstddef>

namespace culprit {

// The length of the text up to its NUL, the first byte that cannot be read, or 64 KiB. One system call for each page,
// which every seccomp filter allows. Thread- and signal-safe.
std::size_t readable_length(const char* text);

}  // namespace culprit
