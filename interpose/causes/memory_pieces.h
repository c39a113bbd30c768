// The memory to which no handle was found yet, for pointers into the middle of it. Announced regions are pieces of
// their own: a pointer into one points into the allocation around it, too.
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
  std::uint32_t tag;    // as in the set of handles, 0 = a pointer was found
  std::uint32_t outer;  // the innermost piece that this one lies in, MemoryPieces::kNone
};

class MemoryPieces {
 public:
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  // Takes those of `handles` that were not found yet and that are addresses. False without memory.
  bool open(Process& process, const HandleSet& handles);
  void close();

  std::uint64_t missing() const { return missing_; }

  // Calls visit_one(piece) for each piece that `address` points into, its begin included, and to which no pointer was
  // found yet.
  template <typename Visit>
  void visit(std::uint64_t address, Visit visit_one) {
    if (address < least_ || address >= most_) return;
    for (std::uint32_t at = last_from(address); at != kNone; at = list_[at].outer) {
      if (address < list_[at].end && list_[at].tag != 0) visit_one(&list_[at]);
    }
  }
  // Likewise, behind its first byte.
  template <typename Visit>
  void visit_around(std::uint64_t address, Visit visit_one) {
    visit(address, [&](MemoryPiece* piece) {
      if (piece->begin != address) visit_one(piece);
    });
  }

  void set_found(MemoryPiece* piece) {
    piece->tag = 0;
    --missing_;
  }

 private:
  // The last piece that begins at the address or before it.
  std::uint32_t last_from(std::uint64_t address) const;
  void nest();

  MemoryPiece* list_ = nullptr;  // sorted by their begins, the outer one first
  std::uint64_t bytes_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t missing_ = 0;
  std::uint64_t least_ = ~std::uint64_t{0};
  std::uint64_t most_ = 0;
};

}  // namespace culprit
