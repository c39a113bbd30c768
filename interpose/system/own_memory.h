// The library's use of address space. It must never make the program's own allocations fail, or use up the memory that
// the program may lock.
//
// Share: where the address space (RLIMIT_AS) or private memory (RLIMIT_DATA) is limited, the library's mappings
// together stay under a sixteenth of the smaller limit. Beyond it a mapping fails here, and the event that needed it is
// counted as not recorded. Without a limit no mapping is refused here. Strict overcommit (vm.overcommit_memory=2) needs
// no rule of its own: the kernel accounts private writable mappings only, so a reservation (PROT_NONE) and the dump
// itself (a shared file) are free, and for the other mappings a failed mmap is handled. Pages are not touched before
// their use, so a memory cgroup is charged only for stored data.
//
// Locked memory: after mlockall(MCL_FUTURE) each new mapping is locked, filled at once, and counted against
// RLIMIT_MEMLOCK; a large one fails with EAGAIN. The library maps one page, unlocks it and then enlarges the mapping,
// which stays unlocked. So it takes only one page of that limit, for some microseconds.
//
// All functions are thread- and signal-safe and never call malloc.
#pragma once

#include <cstdint>

namespace culprit {

// Zeroed anonymous private memory, independent of malloc. nullptr on failure. A fork child inherits a copy: a signal
// handler that forks may have interrupted code that goes on to use the memory in the child.
void* map_private(std::uint64_t bytes, int* error);

// map_private() for a list of items.
template <typename Item>
Item* map_items(std::uint64_t count) {
  int error = 0;
  return static_cast<Item*>(map_private(count * sizeof(Item), &error));
}

// Enlarges a mapping from `old_bytes` to `bytes`, and may move it. Returns nullptr on failure; the old mapping is then
// unchanged.
void* enlarge_private(void* memory, std::uint64_t old_bytes, std::uint64_t bytes);

// Frees memory from map_private() or enlarge_private(). See also freed_memory.h.
void unmap_private(void* memory, std::uint64_t bytes);

// For a list of map_items(); nullptr: nothing is done.
template <typename Item>
void unmap_items(Item* items, std::uint64_t count) {
  if (items != nullptr) unmap_private(items, count * sizeof(Item));
}

// In a copy of the process that runs this library's code only: what the process mapped stays ours.
void keep_own_ranges_in_copy();

// Whether the address space or the private memory of the process is limited: keep no memory for later use then.
bool memory_is_limited();

// Maps `fd`, or private memory when it is -1, over a part of a range that reserve_range() returned. Returns 0 or an
// errno.
int map_in_range(void* address, std::uint64_t bytes, int fd, std::uint64_t offset);

// Maps the next `bytes` of the file that is mapped just below `address`, without a descriptor. The file must have that
// size already. Returns 0 or an errno: an error if it is known that the bytes cannot be written (a full disk). If that
// is unknown, access to them may raise SIGBUS.
int continue_mapping(unsigned char* address, std::uint64_t bytes);

// Reserves the addresses [address, address + bytes) without memory; address nullptr: at a place with free addresses
// above it, so that the range can grow. Returns nullptr on failure, also when the range is in use.
unsigned char* reserve_range(unsigned char* address, std::uint64_t bytes, int* error);
// Frees a whole range, of which the first `used` bytes may have pages; the process has only one.
void give_back_range(unsigned char* address, std::uint64_t bytes, std::uint64_t used);

// How many bytes to reserve for a range that may grow to `most`: `most` without a limit, else a 64th of the address
// space that the program has left, and at least `least`.
std::uint64_t range_piece(std::uint64_t least, std::uint64_t most);

}  // namespace culprit
