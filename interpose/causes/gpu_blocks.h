// The live memory of the GPU with its addresses, sorted: device, managed and pinned memory, and pool allocations.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

struct Process;

struct GpuBlock {
  std::uint64_t begin;
  std::uint64_t end;
  format::Ref allocation;
  std::uint32_t state;  // of the record
  std::uint32_t context;
  std::uint8_t device;
  format::Kind kind;
  std::uint8_t marks;      // of the search
  bool next_at_end;        // another block begins at its end
  std::uint64_t identity;  // by the driver; 0: not known

  // The last address that refers to it. Its end does, like that of a C++ iterator, unless another block begins there: a
  // program that has only a pointer to the end of its memory is rare.
  std::uint64_t last_address() const { return end - next_at_end; }

  bool is_in_host_memory() const { return kind == format::Kind::kPinnedHost; }
};

class GpuBlocks {
 public:
  enum class Collected {
    kDone,
    kNoMemory,
    kOthers,  // things are alive that hold pointers in the driver, or memory that cannot be read: see is_harmless()
  };
  Collected collect(Process& process);
  void close();

  std::uint32_t size() const { return count_; }
  GpuBlock& operator[](std::uint32_t number) { return list_[number]; }
  const GpuBlock& operator[](std::uint32_t number) const { return list_[number]; }

  // A pointer so far before a block refers to it: arrays that count from 1.
  static constexpr std::uint64_t kBefore = 64;

  // Calls visit(number) for each block that `address` refers to: from a little before its begin to last_address().
  template <typename Visit>
  void find(std::uint64_t address, Visit visit) const {
    if (count_ == 0 || address + kBefore - list_[0].begin > span_) return;
    std::uint32_t low = 0;
    std::uint32_t high = count_;
    while (low < high) {
      const std::uint32_t middle = low + (high - low) / 2;
      if (list_[middle].begin <= address + kBefore) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    // Blocks of two devices may have the same addresses, and one may begin right behind another one.
    while (low-- != 0 && address <= list_[low].last_address()) visit(low);
  }

 private:
  GpuBlock* list_ = nullptr;
  std::uint64_t bytes_ = 0;
  std::uint32_t count_ = 0;
  std::uint64_t span_ = 0;
};

}  // namespace culprit
