// Reads ranges of this process's own memory, which may change, lose its access rights or go away meanwhile: as copies
// that the kernel makes, so that unreadable memory is an error code and never a signal.
#pragma once

#include <cstdint>

namespace culprit {

struct MemoryRange {
  std::uint64_t begin;  // multiples of 8
  std::uint64_t end;
};

enum class ReadEnd {
  kDone,     // also when `visit` had enough
  kStopped,  // no time, no memory, or the kernel refuses to read
};

struct ReadResult {
  ReadEnd end;
  std::uint64_t bytes_read;
};

// A copy of `count` words at `address`. Returns false when it has seen enough.
using VisitWords = bool (*)(void* context, const std::uint64_t* words, std::uint64_t count, std::uint64_t address);

// Calls visit() for the memory of `ranges`, block by block and in their order. Memory that was never written since it
// was mapped is left out where the kernel tells: it holds nothing of this process, and reading it would take up memory.
// Stops when CLOCK_MONOTONIC passes `deadline_ns`. Never allocates. Changes errno.
ReadResult read_written_memory(const MemoryRange* ranges, int count, std::uint64_t deadline_ns, VisitWords visit,
                               void* context);

}  // namespace culprit
