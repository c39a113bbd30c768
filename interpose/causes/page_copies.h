// Copies of the pages of this process that a search has read last: most words that it wants lie near others.
//
// Private memory of its own, never malloc. Not thread-safe.
#pragma once

#include <cstdint>

namespace culprit {

// Memory may change, be protected or be unmapped meanwhile.
class PageCopies {
 public:
  // False without memory.
  bool open();
  void close();

  // The copy of the page that `address` lies in, valid until the next call; nullptr if it cannot be read.
  const std::uint64_t* page(std::uint64_t address) {
    const std::uint64_t block = address / kBlock;
    const Slot& slot = slots_[slot_of(block)];
    const std::uint64_t in_block = address / kPage % kPagesOfBlock;
    if (slot.block != block || (slot.pages >> in_block & 1) == 0) return read(address);
    return copy_of(block, in_block);
  }

  // Reads an aligned word. False if it cannot be read.
  bool word(std::uint64_t address, std::uint64_t* value) {
    const std::uint64_t* words = page(address);
    if (words != nullptr) *value = words[address % kPage / sizeof(std::uint64_t)];
    return words != nullptr;
  }

  static constexpr std::uint64_t kPage = 4096;  // also where the kernel's are larger

 private:
  // Pages are read in blocks, because a system call costs more than the pages beside the wanted one.
  static constexpr std::uint64_t kPagesOfBlock = 4;
  static constexpr std::uint64_t kBlock = kPagesOfBlock * kPage;
  static constexpr std::uint64_t kSlots = 2048;
  struct Slot {
    std::uint64_t block;  // address / kBlock
    std::uint64_t pages;  // bit N: page N of it is there
  };
  static constexpr std::uint64_t kBytes = kSlots * (kBlock + sizeof(Slot));

  // The heaps of threads begin at multiples of 64 MiB: by the lowest bits alone their blocks would share a few slots.
  static std::uint64_t slot_of(std::uint64_t block) { return (block ^ block >> 10 ^ block >> 17) % kSlots; }

  std::uint64_t* copy_of(std::uint64_t block, std::uint64_t page) {
    return copies_ + (slot_of(block) * kBlock + page * kPage) / sizeof(std::uint64_t);
  }
  const std::uint64_t* read(std::uint64_t address);

  std::uint64_t* copies_ = nullptr;
  Slot* slots_ = nullptr;
};

}  // namespace culprit
