// Regions: parts of one allocation that the program announces as allocations of their own (NVTX's memory extension,
// culprit.h), and heaps: the memory that they are cut from.
//
// A region is a record like any other: stack, thread, label, evidence. It counts 0 bytes, because the allocation that
// it lies in has them, and no device: the report takes that of the allocation, whose record it finds by the address. To
// find it here would be a walk over all live records for each region.
//
// None of these functions starts a dump, asks the driver, or does anything while recording is off. Each is called in
// the frame of the function that the program called, behind CULPRIT_ANNOUNCEMENT.
#pragma once

#include <cstdint>

#include "interpose/base/keep_errno.h"
#include "interpose/driver/api.h"
#include "interpose/process/hook_entry.h"

// The first line of a function that a program calls to announce something: the stack begins there. Where the thread is
// in a hook, because a callback of the driver announces, it begins at that hook.
#define CULPRIT_ANNOUNCEMENT \
  KeepErrno keep;            \
  HookScope scope(__builtin_frame_address(0), nullptr, !is_in_hook());

namespace culprit {

// Not terminated. `length` 0: no name.
struct RegionName {
  const char* text = nullptr;
  std::uint32_t length = 0;
};

// The whole process as a heap: regions that were announced in no other.
constexpr std::uint64_t kWholeProcess = 0;

struct Region {
  std::uint64_t heap = kWholeProcess;  // its address
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// A part of a CUDA array, in elements.
struct ArrayPart {
  std::uint64_t array = 0;  // its handle
  std::uint64_t offset[3] = {};
  std::uint64_t extent[3] = {};
};

// The region of that part, in the heap that the array is. `address` 0: no array of this handle is known.
Region region_of(const ArrayPart& part);
// All of an array, as a region.
Region region_of_array(std::uint64_t array);

// Replaces a region or a heap with the same address.
void note_region_made(Api api, const Region& region, const RegionName& name);
void note_heap_made(Api api, std::uint64_t address, std::uint64_t bytes, const RegionName& name);

// A region that is not known is ignored: it may have been announced before the first CUDA call.
void note_region_ended(Api api, std::uint64_t address);
void note_region_resized(std::uint64_t address, std::uint64_t bytes);
// Where no region begins, the name is that of the allocation around the address.
void note_region_named(std::uint64_t address, const RegionName& name);

// Ends all regions of a heap. Walks over all live records.
void note_heap_reset(std::uint64_t address);
// The heap ends, too.
void note_heap_ended(Api api, std::uint64_t address);

}  // namespace culprit
