// A set of handles to search memory for. Most words of a program's data are not handles, and are rejected by their
// range and one bit.
//
//   word --in [least, most]?--> filter bit set? --> table: which allocation is it?
//
// Private memory of its own, never malloc. All zeros = empty. Not thread-safe.
#pragma once

#include <sys/mman.h>

#include <cstdint>

#include "interpose/format/dump_format.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"

namespace culprit {

class HandleSet {
 public:
  // Smaller numbers are not addresses or pointers to the driver's objects, and are common in memory.
  static constexpr std::uint64_t kLeastHandle = 65536;

  // Makes room for `count` handles. False when there is no memory. Call once, before add().
  bool reserve(std::uint64_t count) {
    table_bits_ = 8;
    while ((std::uint64_t{1} << table_bits_) < 2 * count) ++table_bits_;
    filter_bits_ = table_bits_ + 3;  // 16 bits per handle: 1 of 16 other words passes
    bytes_ = (sizeof(Entry) << table_bits_) + (std::uint64_t{1} << filter_bits_) / 8;
    int error = 0;
    entries_ = static_cast<Entry*>(map_private(bytes_, &error));
    if (entries_ == nullptr) return false;
    os.advise(entries_, bytes_, MADV_HUGEPAGE);  // random accesses: fewer faults, fewer TLB misses
    filter_ = reinterpret_cast<std::uint64_t*>(entries_ + (std::uint64_t{1} << table_bits_));
    least_ = ~0ULL;
    return true;
  }

  // Gives the memory back.
  void release() {
    if (entries_ != nullptr) unmap_private(entries_, bytes_);
    entries_ = nullptr;
  }

  // Several allocations may have one handle. `tag` belongs to the caller and must not be 0. Handles beyond the reserved
  // count and handles below kLeastHandle are ignored.
  void add(std::uint64_t handle, format::Ref allocation, std::uint32_t tag) {
    if (handle < kLeastHandle || (count_ + 1) * 2 > std::uint64_t{1} << table_bits_) return;
    std::uint64_t hash = handle * kFactor;
    filter_[bit_of(hash) / 64] |= 1ULL << (bit_of(hash) % 64);
    std::uint64_t mask = (std::uint64_t{1} << table_bits_) - 1;
    std::uint64_t slot = hash >> (64 - table_bits_);
    while (entries_[slot].allocation != 0) slot = (slot + 1) & mask;
    entries_[slot] = {handle, allocation, tag};
    if (handle < least_) least_ = handle;
    if (handle > most_) most_ = handle;
    ++count_;
    ++missing_;
  }

  std::uint64_t size() const { return count_; }
  // Number of handles that match() has not found yet.
  std::uint64_t missing() const { return missing_; }

  // Whether the handle was added, found or not.
  bool has(std::uint64_t handle) const {
    return any_entry(handle, [](const Entry&) { return true; });
  }

  // Whether match() has not found the handle yet.
  bool is_missing(std::uint64_t handle) const {
    return any_entry(handle, [](const Entry& entry) { return entry.tag != 0; });
  }

  // Calls visit(allocation, tag) for each allocation with this handle that match() has not found yet.
  template <typename Visit>
  void visit_missing(std::uint64_t handle, Visit visit) const {
    any_entry(handle, [&](const Entry& entry) {
      if (entry.tag != 0) visit(entry.allocation, entry.tag);
      return false;
    });
  }

  // Calls visit(handle, allocation, tag) for each handle that match() has not found yet.
  template <typename Visit>
  void for_each_missing(Visit visit) const {
    if (count_ == 0) return;
    for (std::uint64_t slot = 0; slot < std::uint64_t{1} << table_bits_; ++slot) {
      const Entry& entry = entries_[slot];
      if (entry.allocation != 0 && entry.tag != 0) visit(entry.handle, entry.allocation, entry.tag);
    }
  }

  // Calls found(allocation, tag, index of the word) at the first occurrence of each handle.
  template <typename Found>
  void match(const std::uint64_t* words, std::uint64_t count, Found found) {
    std::uint64_t span = most_ - least_;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::uint64_t word = words[i];
      if (word - least_ > span) continue;
      std::uint64_t hash = word * kFactor;
      std::uint64_t bit = bit_of(hash);
      if ((filter_[bit / 64] >> (bit % 64) & 1) == 0) continue;
      std::uint64_t mask = (std::uint64_t{1} << table_bits_) - 1;
      for (std::uint64_t slot = hash >> (64 - table_bits_); entries_[slot].allocation != 0; slot = (slot + 1) & mask) {
        Entry& entry = entries_[slot];
        if (entry.handle != word || entry.tag == 0) continue;
        found(entry.allocation, entry.tag, i);
        entry.tag = 0;
        --missing_;
      }
    }
  }

 private:
  struct Entry {
    std::uint64_t handle;
    format::Ref allocation;  // 0 = free slot
    std::uint32_t tag;       // 0 = found
  };
  static constexpr std::uint64_t kFactor = 0x9e3779b97f4a7c15ULL;  // 2^64 / golden ratio: spreads evenly spaced numbers

  template <typename Which>
  bool any_entry(std::uint64_t handle, Which which) const {
    if (count_ == 0 || handle - least_ > most_ - least_) return false;
    const std::uint64_t hash = handle * kFactor;
    if ((filter_[bit_of(hash) / 64] >> (bit_of(hash) % 64) & 1) == 0) return false;
    const std::uint64_t mask = (std::uint64_t{1} << table_bits_) - 1;
    for (std::uint64_t slot = hash >> (64 - table_bits_); entries_[slot].allocation != 0; slot = (slot + 1) & mask) {
      if (entries_[slot].handle == handle && which(entries_[slot])) return true;
    }
    return false;
  }

  std::uint64_t bit_of(std::uint64_t hash) const { return hash >> (64 - filter_bits_); }

  Entry* entries_;
  std::uint64_t* filter_;
  std::uint64_t bytes_;
  int table_bits_;
  int filter_bits_;
  std::uint64_t count_;
  std::uint64_t missing_;
  std::uint64_t least_;
  std::uint64_t most_;
};

}  // namespace culprit
