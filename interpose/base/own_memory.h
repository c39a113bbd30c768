// The address space that the library takes in a process, and what it must never do there: make the program's own
// allocation fail, or use up what the program may lock.
//
// Share: where the address space (RLIMIT_AS) or private memory (RLIMIT_DATA) is limited, all of ours together stays
// under a sixteenth of the smaller limit. Beyond it a mapping fails here, and what needed it is counted as not
// recorded. Without a limit nothing is refused. Strict overcommit (vm.overcommit_memory=2) needs no rule of its own:
// the kernel accounts private writable mappings only, so a reservation (PROT_NONE) and the dump itself (a shared file)
// are free, and the rest is asked for with a mmap whose failure is handled. Nothing is touched before it is used, so a
// memory cgroup is charged for what is stored and for no more.
//
// Locked memory: after mlockall(MCL_FUTURE) each new mapping is locked, filled at once, and counted against
// RLIMIT_MEMLOCK; a large one fails with EAGAIN. Ours are made of one page, which is unlocked and then enlarged: what
// is enlarged stays unlocked, so a page is all that the program misses, for some microseconds.
//
// All functions are thread- and signal-safe and never call malloc.
#pragma once

#include <cstdint>

namespace culprit {

// Anonymous private memory that is zero and never returned to malloc. nullptr on failure. A fork child inherits a copy:
// a signal handler that forks may have interrupted code that goes on to use it in the child.
void* map_private(std::uint64_t bytes, int* error);

// The same memory with `bytes` instead of `old_bytes`, perhaps at another place; nullptr on failure, and the old one
// stands.
void* enlarge_private(void* memory, std::uint64_t old_bytes, std::uint64_t bytes);

// Gives back what map_private() or enlarge_private() returned.
void unmap_private(void* memory, std::uint64_t bytes);

// Maps `fd`, or private memory when it is -1, over a part of a range that reserve_range() returned. Returns 0 or an
// errno.
int map_in_range(void* address, std::uint64_t bytes, int fd, std::uint64_t offset);

// Maps `bytes` more of the file that the page in front of `address` is mapped from, without a descriptor of it. The
// file has them already. Where it can be known that they can not be written (a full disk), that is an error; else
// touching them may be a SIGBUS. Returns 0 or an errno.
int continue_mapping(unsigned char* address, std::uint64_t bytes);

// Addresses for [address, address + bytes) without memory behind them; address nullptr: at a place with room behind it,
// where it can grow. Returns nullptr on failure, also when something else lies at `address`.
unsigned char* reserve_range(unsigned char* address, std::uint64_t bytes, int* error);
// All of a range; the process has only one.
void give_back_range(unsigned char* address, std::uint64_t bytes);

// How many bytes of addresses a range should have that is to hold `most` in the end: all of it where nothing is
// limited, else a 64th of what the program has left, and at least `least`.
std::uint64_t range_piece(std::uint64_t least, std::uint64_t most);

}  // namespace culprit
