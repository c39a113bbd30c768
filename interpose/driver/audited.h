// Which driver functions the audit counts: those that make or end memory, contexts, streams, graphs and other
// resources.
//
// A name decides, not hooks.def: the names come from the running CUPTI, so that a function that was forgotten there, or
// that is newer than this library, is counted too.
#pragma once

#include <cstdint>

namespace culprit {

// Whether the audit counts the function with this ELF symbol.
bool is_audited(const char* symbol);

// Whether some version of this function has a row in hooks.def that records what it makes or ends. The version does not
// matter, because CUPTI names a few functions with another one than libcuda does.
bool has_recording_row(const char* symbol);

// The bytes that a successful call of the function allocated: `parameters` is the call's parameters as a struct. 0 for
// functions that allocate no memory, and for those whose size is not a parameter.
std::uint64_t audited_bytes(const char* symbol, const void* parameters);

}  // namespace culprit
