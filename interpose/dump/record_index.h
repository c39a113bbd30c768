// The private index of the live table (live_table.h): space and handle of a record -> its Ref. Not thread-safe: the
// caller locks. All zeros = empty. Never calls malloc.
//
// A slot has eight bytes, because a program may have millions of live allocations: a mark of 32 bits and the Ref. The
// key itself is in the record, which is read only when the marks are equal. A mark is the handle's hash, changed by the
// space: two entries with the same handle have different marks when their spaces differ.
//
//   slot     0 ................................. homes_ ........ + beyond_
//   +--------+--------+--------+--------+ ... +--------+ ... +---+
//   | mark 9 | mark 7 | mark 7 | 0      |     | mark 1 |     | 0 |   marks fall; 0 = free; the last slot stays free
//   +--------+--------+--------+--------+ ... +--------+ ... +---+
//
// An entry lies at its home, which follows from its mark alone, or behind it, with no free slot in between; all marks
// are sorted. So a search ends at the first smaller mark even when the table is seven eighths full, and a table grows
// by an eighth at a time: the entries are copied in their order, without a look at a record. (Tables that double are
// half empty on the average: with 16 bytes a slot and at most three quarters full they took 21 to 43 bytes an entry,
// this one takes 9 to 11 from 4 pages on.)
//
// A jump from a signal handler out of a function that changes the table leaves an entry twice or the newest one out;
// repair() keeps the valid ones.
#pragma once

#include <cstdint>

#include "interpose/base/hash.h"
#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"

namespace culprit {

class RecordIndex {
 public:
  using Slot = std::uint64_t;  // mark << 32 | Ref; 0 = free
  static format::Ref ref_of(Slot slot) { return static_cast<format::Ref>(slot); }
  // The space of an entry whose record has this handle. (A number above 0xffff: the record has another handle by now.)
  static std::uint32_t space_of(Slot slot, std::uint64_t handle) { return mark_of(slot) ^ hash_of(handle); }

  // Adds an entry (ref != 0). Returns false when the table had to grow and there was no memory.
  bool insert(std::uint64_t handle, std::uint32_t space, format::Ref ref) {
    const std::uint32_t mark = hash_of(handle) ^ space;
    if (CULPRIT_UNLIKELY(count_ >= most_) && !grow()) return false;
    return place(first_below(first_of(mark), mark), mark, ref);
  }

  // Adds an entry, or replaces the one whose record has the same handle, space and device: `replaced` receives its Ref,
  // 0 if there was none.
  __attribute__((always_inline)) bool put(std::uint64_t handle, std::uint32_t space, std::uint8_t device,
                                          format::Ref ref, const DumpWriter& dump, format::Ref* replaced) {
    const std::uint32_t mark = hash_of(handle) ^ space;
    *replaced = 0;
    if (CULPRIT_LIKELY(count_ < most_)) {
      Slot* slot = first_of(mark);
      if (CULPRIT_LIKELY(*slot == 0 && slot != last())) {
        store(slot, slot_of(mark, ref));
        ++count_;
        return true;
      }
    }
    return put_among_others(handle, mark, device, ref, dump, replaced);
  }

  // The first entry of this space and handle for which accept(record) is true, nullptr if there is none.
  template <typename Accept>
  Slot* find(std::uint64_t handle, std::uint32_t space, const DumpWriter& dump, Accept accept) const {
    if (slots_ == nullptr) return nullptr;
    const std::uint32_t mark = hash_of(handle) ^ space;
    for (Slot* slot = first_of(mark); has_mark(*slot, mark); ++slot) {
      const auto* record = dump.at<format::AllocationRecord>(ref_of(*slot));
      if (record->handle == handle && accept(*record)) return slot;
    }
    return nullptr;
  }

  // An entry of this space and handle, and whether there are several.
  struct Found {
    Slot* slot;
    bool several;
  };
  Found find(std::uint64_t handle, std::uint32_t space, const DumpWriter& dump) const {
    Found found = {nullptr, false};
    if (slots_ == nullptr) return found;
    const std::uint32_t mark = hash_of(handle) ^ space;
    for (Slot* slot = first_of(mark); has_mark(*slot, mark); ++slot) {
      if (dump.at<format::AllocationRecord>(ref_of(*slot))->handle != handle) continue;
      found.several = found.slot != nullptr;
      found.slot = slot;
      if (found.several) break;
    }
    return found;
  }

  // The entry that has this content, nullptr if there is none.
  Slot* find(Slot content) const {
    if (slots_ == nullptr) return nullptr;
    const std::uint32_t mark = mark_of(content);
    for (Slot* slot = first_of(mark); has_mark(*slot, mark); ++slot) {
      if (*slot == content) return slot;
    }
    return nullptr;
  }

  // The first entry of the table for which accept(content) is true, nullptr if there is none. Walks everything.
  template <typename Accept>
  Slot* find_any(Accept accept) const {
    for (std::uint32_t i = 0; i < slot_count(); ++i) {
      if (slots_[i] != 0 && accept(slots_[i])) return &slots_[i];
    }
    return nullptr;
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    find_any([&](Slot slot) {
      visit(slot);
      return false;
    });
  }

  // Removes an entry that find() returned, and closes the gap.
  void erase(Slot* slot) {
    for (; slot[1] != 0 && slots_ + home_of(mark_of(slot[1])) <= slot; ++slot) store(slot, slot[1]);
    store(slot, 0);
    --count_;
  }

  // Keeps one copy of each entry for which is_right(content) is true, and drops the rest. Returns false, without a
  // change, when there is no memory.
  template <typename IsRight>
  bool repair(IsRight is_right) {
    if (slots_ == nullptr) return true;
    RecordIndex sound = {};
    if (!sound.allocate(homes_, beyond_)) return false;
    for_each([&](Slot slot) {
      if (is_right(slot) && sound.find(slot) == nullptr)
        sound.place(first_below(sound.first_of(mark_of(slot)), mark_of(slot)), mark_of(slot), ref_of(slot));
    });
    free_memory();
    *this = sound;
    return true;
  }

  // Gives the memory back; empty afterwards.
  void free_memory();

  std::uint32_t size() const { return count_; }
  std::uint64_t bytes() const { return std::uint64_t{pages_} * kPage; }

 private:
  static constexpr std::uint32_t kPage = 4096;
  static constexpr std::uint32_t kSlotsOfPage = kPage / sizeof(Slot);
  static constexpr std::uint32_t kFirstBeyond = 32;

  // Skips the uppermost eight bits, by which LiveTable chooses the shard.
  static std::uint32_t hash_of(std::uint64_t handle) { return static_cast<std::uint32_t>(quick_hash(handle) >> 24); }
  static std::uint32_t mark_of(Slot slot) { return static_cast<std::uint32_t>(slot >> 32); }
  static Slot slot_of(std::uint32_t mark, format::Ref ref) { return Slot{mark} << 32 | ref; }
  static bool has_mark(Slot slot, std::uint32_t mark) { return mark_of(slot) == mark && slot != 0; }
  std::uint32_t slot_count() const { return pages_ * kSlotsOfPage; }
  std::uint32_t home_of(std::uint32_t mark) const { return static_cast<std::uint32_t>(Slot{~mark} * homes_ >> 32); }

  // The first slot from the mark's home on whose mark is not greater, or that is free.
  Slot* first_of(std::uint32_t mark) const {
    Slot* slot = slots_ + home_of(mark);
    while (mark_of(*slot) > mark) ++slot;
    return slot;
  }
  static Slot* first_below(Slot* slot, std::uint32_t mark) {
    while (has_mark(*slot, mark)) ++slot;
    return slot;
  }

  // In this order also for a signal handler of the same thread.
  static void store(Slot* to, Slot slot) {
    *to = slot;
    asm volatile("" ::: "memory");
  }

  // Stores an entry there, and moves those behind it.
  bool place(Slot* at, std::uint32_t mark, format::Ref ref) {
    if (CULPRIT_UNLIKELY(*at != 0 || at == last()) && !make_gap(at)) return grow() && insert_again(mark, ref);
    store(at, slot_of(mark, ref));
    ++count_;
    return true;
  }
  Slot* last() const { return slots_ + slot_count() - 1; }
  bool put_among_others(std::uint64_t handle, std::uint32_t mark, std::uint8_t device, format::Ref ref,
                        const DumpWriter& dump, format::Ref* replaced);
  bool make_gap(Slot* at);
  bool insert_again(std::uint32_t mark, format::Ref ref);
  CULPRIT_COLD bool grow();
  bool grow_here();
  bool allocate(std::uint32_t homes, std::uint32_t beyond);
  bool copy_to(RecordIndex* larger) const;

  Slot* slots_;
  std::uint32_t pages_;
  std::uint32_t homes_;
  std::uint32_t beyond_;  // slots behind the last home, with the one that stays free
  std::uint32_t count_;
  std::uint32_t most_;  // entries before it grows
};

}  // namespace culprit
