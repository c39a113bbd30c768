// Where the chunks of one heap of malloc begin, from a walk over their headers: each leads to the next one. The memory
// of a chunk may have old headers inside, of chunks that malloc has joined since, so that a header alone proves
// nothing.
//
// Private memory of its own, never malloc: a bit for each 16 bytes of the heap. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/malloc_layout.h"

namespace culprit {

class PageCopies;

class ChunkStarts {
 public:
  // `first`: the header of the first chunk; `end`: of the heap. False without memory.
  bool open(std::uint64_t first, std::uint64_t end);
  void close();
  bool is_open() const { return bits_ != nullptr; }

  // Walks on as far as `address`, or to the end of what can be walked. Returns whether all starts up to there are
  // known.
  bool reach(std::uint64_t address, PageCopies* pages) {
    while (address >= at_ + malloc_layout::kHeader && step(pages)) {
    }
    return address < at_ + malloc_layout::kHeader;
  }

  // The last start (what malloc returned) at or before `address`, `farthest` bytes before at most; 0 if there is none.
  // reach() has returned true.
  std::uint64_t last(std::uint64_t address, std::uint64_t farthest) const;

 private:
  bool step(PageCopies* pages);

  std::uint64_t* bits_ = nullptr;
  std::uint64_t words_ = 0;
  std::uint64_t first_ = 0;
  std::uint64_t end_ = 0;
  std::uint64_t at_ = 0;  // the header to walk on from
  std::uint64_t steps_ = 0;
};

}  // namespace culprit
