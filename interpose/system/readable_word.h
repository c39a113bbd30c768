// Whether memory at an address that may be any number can be read.
#pragma once

#include <cstdint>

namespace culprit {

// Whether the kernel can read the eight bytes at `address`. One system call, which every seccomp filter allows. Another
// thread may unmap them at the next moment. Thread- and signal-safe.
bool is_readable_word(std::uint64_t address);

}  // namespace culprit
