// The auxiliary vector, by which the kernel tells a new process about itself.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

// An entry, like getauxval(); 0 = unknown. By libc's own function as soon as that is known, else from /proc.
std::uint64_t auxiliary_value(std::uint64_t type);

// An entry, read from /proc.
std::uint64_t auxiliary_from_proc(std::uint64_t type);

// libc's own getauxval(), or a function that asks it; loaded_late() stores it. nullptr = not known.
extern CULPRIT_OWN std::atomic<std::uint64_t (*)(std::uint64_t type)> auxiliary_of_libc;

}  // namespace culprit
