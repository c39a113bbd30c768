// Freed memory that is unmapped a part at a time: the kernel takes 0.2 us for each page that was used, and the thread
// that frees all tables of a recording may be one that the program waits for.
#pragma once

#include <cstdint>

namespace culprit {

// While it exists, what unmap_private() and give_back_range() free stays mapped, for unmap_freed(). One at a time.
class FreesLater {
 public:
  FreesLater();
  ~FreesLater();
  FreesLater(const FreesLater&) = delete;
  FreesLater& operator=(const FreesLater&) = delete;
};

// Keeps [address, address + bytes), of which the first `used` bytes may have pages, for unmap_freed(). Returns false
// when no FreesLater exists, or when there is no room. Thread-safe.
bool free_later(void* address, std::uint64_t bytes, std::uint64_t used);

// Unmaps some of it, and more as long as CLOCK_MONOTONIC is less than `until`. Returns whether nothing is left. In a
// fork child what the parent has left stays mapped. Not while a FreesLater exists; one caller at a time.
bool unmap_freed(std::uint64_t until);

}  // namespace culprit
