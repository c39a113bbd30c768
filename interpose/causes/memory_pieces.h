// The memory to which no handle was found yet, for pointers into the middle of it.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/causes/handle_set.h"

namespace culprit {

struct Process;

struct MemoryPiece {
  std::uint64_t begin;
  std::uint64_t end;
  format::Ref allocation;
  std::uint32_t tag;  // as in the set of handles, 0 = a pointer was found
};

class MemoryPieces {
 public:
  // Takes those of `handles` that were not found yet and that are addresses. False without memory.
  bool open(Process& process, const HandleSet& handles);
  void close();

  std::uint64_t missing() const { return missing_; }

  // The piece that `address` points into, its begin included, if no pointer to it was found yet; else nullptr.
  MemoryPiece* find(std::uint64_t address) { return address < least_ || address >= most_ ? nullptr : look_up(address); }
  // Likewise, behind its first byte.
  MemoryPiece* find_inside(std::uint64_t address) {
    MemoryPiece* piece = find(address);
    return piece == nullptr || piece->begin == address ? nullptr : piece;
  }

  void set_found(MemoryPiece* piece) {
    piece->tag = 0;
    --missing_;
  }

 private:
  MemoryPiece* look_up(std::uint64_t address);

  MemoryPiece* list_ = nullptr;  // sorted by their begins
  std::uint64_t bytes_ = 0;
  std::uint64_t count_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t least_ = ~std::uint64_t{0};
  std::uint64_t most_ = 0;
};

}  // namespace culprit
