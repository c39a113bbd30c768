// Reads ranges of this process's own memory, which may change, be protected or be unmapped meanwhile. The kernel copies
// it, so that unreadable memory gives an error code instead of a signal.
#pragma once

#include <cstdint>

namespace culprit {

struct MemoryRange {
  std::uint64_t begin;  // multiples of 8
  std::uint64_t end;
};

enum class ReadEnd {
  kDone,     // also when `visit` returned false
  kStopped,  // timeout, no memory, or the kernel refuses to read
};

struct ReadResult {
  ReadEnd end;
  std::uint64_t bytes_read;
};

// Receives a copy of `count` words at `address`. Returns false to stop.
using VisitWords = bool (*)(void* context, const std::uint64_t* words, std::uint64_t count, std::uint64_t address);

// Calls visit() for the memory of `ranges`, block by block and in their order. Pages that were never written are
// skipped if the kernel reports them: they hold no data, and reading them would use memory. Stops when CLOCK_MONOTONIC
// passes `deadline_ns`. Never allocates. Changes errno.
ReadResult read_written_memory(const MemoryRange* ranges, int count, std::uint64_t deadline_ns, VisitWords visit,
                               void* context);

}  // namespace culprit
