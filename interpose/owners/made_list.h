// The allocations that a thread made and that may be live, in the order in which they were made. Written and read by
// their thread only. All zeros = empty.
//
// The newest ones, most of which end soon, lie in an array. A thread that keeps many has the older ones packed, because
// an entry of the array takes 16 bytes, a quarter of the record that it names. A packed entry holds the differences to
// the one before it, and ends with its description, so that they are read from the newest to the oldest:
//
//   | record | generation | clock | path, in_frames, sizes of the other three (3 bytes) |     0 to 4 bytes each
//
// Records that were never used follow each other, and the next call of the thread has the next clock: that is 3 bytes.
// Records in any order, used up to 60 times, with other calls in between: 7 to 8 bytes.
//
// Rejected: entries of 8 bytes with shortened generations. An allocation that another thread ended could then be taken
// for a later one with the same record.
#pragma once

#include <cstdint>

#include "interpose/base/assertion.h"
#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct MadeEntry {
  format::Ref record;
  std::uint32_t generation;
  std::uint32_t path : 31;
  bool in_frames : 1;
  std::uint32_t clock;  // not smaller than that of the entry before
};
static_assert(sizeof(MadeEntry) == 16);

class MadeList {
 public:
  static constexpr std::uint32_t kPaths = 1U << 13;  // numbers of paths are smaller

  std::uint32_t count() const { return recent_count_ + packed_count_; }
  bool has_packed() const { return packed_bytes_ != 0; }
  // Whether it never needed more than the array.
  bool used_little() const { return packed_ == nullptr; }

  // Whether add() has room; if not, drop what ended and call make_room().
  bool has_room() const { return CULPRIT_LIKELY(recent_count_ != recent_capacity_); }
  void add(const MadeEntry& made) { recent_[recent_count_++] = made; }
  // Packs the older half of the array if it is nearly full. Without memory it stays as it is. `roomy`: enlarges the
  // memory also where little of it is free. On the tracker's own stack only.
  void make_room(bool roomy);
  // Whether make_room() needs more memory if it packs entries.
  bool needs_memory() const { return packed_bytes_ + kMostPacked > packed_capacity_; }

  MadeEntry newest() const {
    if (CULPRIT_LIKELY(recent_count_ != 0)) return recent_[recent_count_ - 1];
    return packed_newest_;  // all zeros when there is none
  }
  void pop() {
    if (CULPRIT_LIKELY(recent_count_ != 0)) {
      --recent_count_;
    } else {
      pop_packed();
    }
  }
  // Removes the newest entry if it is of this record.
  void pop_if(format::Ref record) {
    if (CULPRIT_LIKELY(recent_count_ != 0)) {
      if (recent_[recent_count_ - 1].record == record) --recent_count_;
    } else if (CULPRIT_UNLIKELY(packed_newest_.record == record)) {
      pop_packed();
    }
  }

  // Where an entry lies, until an entry is added or removed.
  struct Place {
    std::uint32_t at;
    bool is_packed;
  };

  // Steps from the newest entry to the oldest. Nothing may be added or removed meanwhile.
  class Walk {
   public:
    explicit Walk(const MadeList& list)
        : list_(list),
          recent_left_(list.recent_count_),
          packed_left_(list.packed_bytes_),
          older_(list.packed_newest_) {}
    bool next() {
      if (CULPRIT_UNLIKELY(recent_left_ == 0)) return next_packed();
      entry_ = list_.recent_[--recent_left_];
      place_ = {recent_left_, false};
      return true;
    }
    const MadeEntry& entry() const { return entry_; }
    Place place() const { return place_; }

   private:
    bool next_packed();

    const MadeList& list_;
    std::uint32_t recent_left_;
    std::uint32_t packed_left_;
    MadeEntry older_;
    MadeEntry entry_ = {};
    Place place_ = {};
  };

  void set_in_frames(Place place, bool in_frames);
  void set_path(Place place, std::uint32_t path);

  // Removes the entries of the array for which lives(entry) is false; with drop_all() the packed ones too, and
  // visit(entry) is called for those that stay, newest first.
  template <typename Lives>
  void drop_recent(Lives lives) {
    std::uint32_t kept = 0;
    for (std::uint32_t i = 0; i < recent_count_; ++i) {
      const MadeEntry entry = recent_[i];
      if (lives(entry)) recent_[kept++] = entry;
    }
    recent_count_ = kept;
  }
  template <typename Lives, typename Visit>
  void drop_all(Lives lives, Visit visit) {
    drop_recent(lives);
    for (std::uint32_t i = recent_count_; i > 0; --i) visit(recent_[i - 1]);
    Repacking repacking(*this);
    while (repacking.next()) {
      if (!lives(repacking.entry())) continue;
      repacking.keep();
      visit(repacking.entry());
    }
  }

  // Every entry counts as made at `clock`, except that packed ones are forgotten.
  void set_clocks(std::uint32_t clock);

  void clear();
  void free_memory();

 private:
  static constexpr std::uint32_t kRecent = 4096;  // entries of the array
  static constexpr std::uint32_t kMostBytes = 3 + 4 + 4 + 4;
  static constexpr std::uint32_t kMostPacked = kRecent / 2 * kMostBytes;  // by one call
  static constexpr std::uint32_t kFirstPacked = 64 << 10;

  // Writes packed entries anew, from the newest to the oldest and from the end of their memory to its beginning. The
  // difference to an older entry takes no more bytes than the entries in between, so no entry is overwritten unread.
  class Repacking {
   public:
    explicit Repacking(MadeList& list) : list_(list), walk_left_(list.packed_bytes_), begin_(list.packed_bytes_) {
      older_ = list.packed_newest_;
    }
    bool next();
    const MadeEntry& entry() const { return entry_; }
    void keep();
    ~Repacking();
    Repacking(const Repacking&) = delete;
    Repacking& operator=(const Repacking&) = delete;

   private:
    void write(const MadeEntry& older);

    MadeList& list_;
    std::uint32_t walk_left_;
    std::uint32_t begin_;  // of what was written
    std::uint32_t kept_ = 0;
    MadeEntry older_ = {};
    MadeEntry entry_ = {};
    MadeEntry newest_ = {};
    MadeEntry unwritten_ = {};
  };

  CULPRIT_COLD void pop_packed();
  bool grow_packed();
  bool prepare_packed(bool roomy);

  MadeEntry* recent_;
  std::uint32_t recent_count_;
  std::uint32_t recent_capacity_;  // 0 or kRecent
  unsigned char* packed_;
  std::uint32_t packed_bytes_;
  std::uint32_t packed_capacity_;
  std::uint32_t packed_count_;
  MadeEntry packed_newest_;
};

}  // namespace culprit
