// The unused allocation records that no thread has, by pages of the dump. Not thread-safe: RecordPool locks. All zeros
// = empty.
//
// Records at the lowest addresses are handed out first. So live ones gather at the beginning of the dump, and when a
// program has ended most of what it made, whole pages are unused: idle. Where they are many, RecordPool gives their
// disk blocks back; they are holes then, and their records are made available again when no others are left.
//
// One bit a record, in private memory: 64 bits for a page of 64 records. The first page of a chunk holds its header
// too, and is never idle.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"

namespace culprit {

class UnusedRecords {
 public:
  static constexpr std::uint32_t kPage = 4096;
  static constexpr std::uint32_t kOfPage = kPage / sizeof(format::AllocationRecord);
  // Pages of the dump, one behind the other.
  struct Run {
    std::uint64_t page;
    std::uint32_t pages;  // 0 = none
    format::Ref first() const { return static_cast<format::Ref>(page * (kPage / format::kRefUnit)); }
    std::uint64_t bytes() const { return std::uint64_t{pages} * kPage; }
  };

  // Records that can be taken.
  std::uint64_t count() const { return count_; }
  std::uint64_t holes() const { return holes_; }

  // Returns false when there is no memory for its bit: then the record is lost.
  bool add(format::Ref ref);
  // Takes the records at the lowest addresses, up to `count`; returns how many.
  std::uint32_t take(format::Ref* to, std::uint32_t count);

  // Takes idle pages at the highest addresses, if the dump has `pages` pages of records and many of them are idle.
  // Follow with add_holes() or add_pages().
  Run take_idle(std::uint64_t pages);
  void add_pages(Run run);
  void add_holes(Run run);
  // Takes holes at the lowest addresses. Follow like take_idle().
  Run take_holes();

  void free_memory();

 private:
  static constexpr std::uint32_t kPages = 500;  // of a region
  static constexpr std::uint32_t kHoleWords = (kPages + 63) / 64;
  struct Region {
    std::uint64_t unused[kPages];
    std::uint64_t holes[kHoleWords];
    std::uint32_t count;       // of bits in `unused`
    std::uint32_t first;       // pages before it have none
    std::uint32_t idle;        // pages
    std::uint32_t hole_count;  // pages
    bool is_idle(std::uint32_t page) const { return unused[page] == ~std::uint64_t{0}; }
    bool is_hole(std::uint32_t page) const { return (holes[page / 64] >> page % 64 & 1) != 0; }
  };
  static_assert(sizeof(Region) <= kPage);

  Region* region_at(std::uint64_t number);
  bool make_regions(std::uint64_t number);

  Region** regions_;
  std::uint64_t region_capacity_;
  std::uint64_t region_count_;  // regions from there on have no record
  std::uint64_t lowest_;        // regions before it have no unused record
  std::uint64_t count_;
  std::uint64_t idle_;  // pages
  std::uint64_t holes_;
};

}  // namespace culprit
