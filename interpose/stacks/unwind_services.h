// Functions that our patched libunwind calls (scripts/libunwind/libunwind.patch): they replace the loader's lock, a
// cache that all threads share under a mutex, and a pipe. Those that read memory use the calling thread's WalkReader.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/base/loader_modules.h"
#include "interpose/base/placement.h"

extern "C" {
// Calls `visit` with the module of `address`, and returns its result; 0 when there is none.
CULPRIT_OWN int culprit_visit_module_at(unsigned long address, culprit::ModuleVisitor visit, void* data);

// A zeroed cache of this size, private to the calling thread; nullptr: unwind without a cache. Defined weakly here, for
// unit tests of the unwinder; process/recording.cpp defines the function of the running library.
CULPRIT_OWN void* culprit_unwind_cache(std::size_t bytes);

// Reads eight bytes at `address`, which a wrong frame pointer or wrong unwind tables may have led to. Returns whether
// that was possible.
CULPRIT_OWN int culprit_read_word(unsigned long address, unsigned long* value);
// The same without the value.
CULPRIT_OWN int culprit_can_read(unsigned long address);

// The walk goes on without unwind information.
CULPRIT_OWN void culprit_begin_guessing();

// Whether `value` can be the frame pointer of a frame whose stack pointer is `cfa`. culprit_read_frame_pointer() reads
// the value at `address`; a negative number: impossible.
CULPRIT_OWN int culprit_is_frame_pointer(unsigned long value, unsigned long cfa);
CULPRIT_OWN int culprit_read_frame_pointer(unsigned long address, unsigned long cfa, unsigned long* value);

// Whether the two words at a frame pointer look like the caller's rbp and a return address: it is an address in the
// code of a module; elsewhere a call stands before it, or the caller's rbp can be a frame pointer. (The interpreter of
// a JVM has return addresses that no call made, but keeps frame pointers.)
CULPRIT_OWN int culprit_is_return_address_at(unsigned long frame_pointer);
}

namespace culprit {

// Whether the bytes before a return address, the nearest one being the highest of `code`, end with a call: E8 and four
// bytes, or FF with the second of its operations and up to five bytes more.
bool ends_with_call(std::uint64_t code);

}  // namespace culprit
