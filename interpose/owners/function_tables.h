// Looks up functions in the unwind tables of the running process.
#pragma once

#include <cstdint>

#include "interpose/owners/abandoned.h"

namespace culprit {

// The function around the call with this return address. Returns false for an address without an entry in the unwind
// tables. Takes no lock of the loader; thread-safe; not while the calling thread is inside libunwind.
bool find_function(std::uint64_t return_address, FunctionInfo* info);

}  // namespace culprit
