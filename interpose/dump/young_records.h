// The few newest live records of each thread: kept by the thread itself instead of in the shared index, because many
// things are ended soon, by the thread that made them. That saves two locks, a fifth of the cost of recording a pair of
// calls.
//
// The owner uses plain loads and stores. Another thread that needs these records (to free such an allocation, or to
// walk all live ones) moves them to the index:
//
//     owner                               another thread, with the list's lock held
//     busy = 1                            open = 0
//     open? then use the slots            membarrier(2): every thread passes a full barrier
//     busy = 0                            wait until busy == 0, move the slots' records
//
// The barrier acts between the owner's store and its load: either the owner sees that its slots are closed, or the
// other thread sees that it is busy. After its records were moved, the owner uses the index for a while, longer each
// time, so that this is rare in a program whose threads free each other's memory.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/linked_list.h"
#include "interpose/base/placement.h"
#include "interpose/dump/thread_part.h"
#include "interpose/format/dump_format.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

struct YoungRecord {
  std::uint64_t handle;  // 0 = none, or a spare record
  format::Ref ref;       // 0 = none
  std::uint32_t tag;     // life << 16 | space << 8 | device
  bool is_free() const { return (handle | ref) == 0; }
};

// The young records of one thread and one space: a handle names one record. All zeros = closed. All functions are for
// the owner, and not reentrant from signal handlers: they run behind the hook guard.
class YoungRecords {
  friend class YoungList;
  struct Slot {
    std::atomic<std::uint64_t> handle;
    std::atomic<std::uint64_t> rest;  // tag << 32 | ref
    YoungRecord get() const {
      std::uint64_t known = handle.load(std::memory_order_acquire);
      std::uint64_t other = rest.load(std::memory_order_relaxed);
      return {known, static_cast<format::Ref>(other), static_cast<std::uint32_t>(other >> 32)};
    }
    void set(YoungRecord record) {
      rest.store(std::uint64_t{record.tag} << 32 | record.ref, std::memory_order_relaxed);
      handle.store(record.handle, std::memory_order_release);
    }
    // A thread that sees the cleared handle also sees the cleared record.
    void clear() {
      rest.store(0, std::memory_order_relaxed);
      handle.store(0, std::memory_order_release);
    }
  };

 public:
  // Adds a record; `evict(record)` receives the one that it displaces: a live record, which must go to the index, or
  // (handle 0) a spare one. Returns false when the slots are closed.
  template <typename Evict>
  bool add(YoungRecord record, Evict evict) {
    Use use(*this);
    if (CULPRIT_UNLIKELY(!use.allowed())) return false;
    Slot& slot = next_slot();
    ++next_;
    YoungRecord old = slot.get();
    if (CULPRIT_UNLIKELY(!old.is_free())) evict(old);
    slot.set(record);
    return true;
  }

  // The next slot, if it is free; nullptr otherwise. add_at() adds a record there; false: the slots are closed.
  Slot* free_slot() {
    Slot& slot = next_slot();
    return slot.get().is_free() ? &slot : nullptr;
  }
  bool add_at(Slot* slot, YoungRecord record) {
    Use use(*this);
    if (CULPRIT_UNLIKELY(!use.allowed())) return false;
    slot->set(record);
    ++next_;
    return true;
  }

  // Removes and returns a record. Returns 0 when it is not here.
  format::Ref take(std::uint64_t handle) {
    return remove(handle, [](Slot& slot) { slot.clear(); });
  }

  // For a thread that repeatedly makes and ends the same kind of thing, the record stays in its slot. end(): like
  // take(), but keeps the record as a spare one. spare(): the spare record in the next slot, if it has this tag; 0 =
  // none. It stays there until add_spare() gives it a handle, or take_spare() removes it. take_spare() returns false
  // when the record is no longer there. add_spare() returns false when the slots are closed; the record then belongs to
  // the caller.
  format::Ref end(std::uint64_t handle) {
    return remove(handle, [](Slot& slot) { slot.handle.store(0, std::memory_order_release); });
  }
  struct Spare {
    format::Ref ref;
    Slot* slot;
  };
  Spare spare(std::uint32_t tag) {
    Slot& slot = next_slot();
    const YoungRecord record = slot.get();
    if (CULPRIT_UNLIKELY(record.handle != 0) || CULPRIT_UNLIKELY(record.tag != tag)) return {0, &slot};
    return {record.ref, &slot};
  }
  bool add_spare(const Spare& spare, std::uint64_t handle) {
    Use use(*this);
    if (CULPRIT_UNLIKELY(!use.allowed())) {
      spare.slot->clear();
      return false;
    }
    spare.slot->handle.store(handle, std::memory_order_release);
    ++next_;
    return true;
  }
  bool take_spare(format::Ref ref) {
    for (Slot& slot : slots_) {
      const YoungRecord record = slot.get();
      if (record.handle != 0 || record.ref != ref) continue;
      slot.clear();
      return true;
    }
    return false;
  }

  // Removes all spare records and passes them to `give(ref)`.
  template <typename Give>
  void take_spares(Give give) {
    for (Slot& slot : slots_) {
      const YoungRecord record = slot.get();
      if (record.handle != 0 || record.ref == 0) continue;
      slot.clear();
      give(record.ref);
    }
  }

 private:
  static constexpr std::uint32_t kSlots = 4;  // a power of two

  // While it exists, the owner uses the slots.
  class Use {
   public:
    explicit Use(YoungRecords& records) : records_(records) {
      records_.busy_.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler only; see above for the processor
    }
    ~Use() { records_.busy_.store(0, std::memory_order_release); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    bool allowed() const { return records_.open_.load(std::memory_order_acquire) != 0; }

   private:
    YoungRecords& records_;
  };

  Slot& next_slot() { return slots_[next_ % kSlots]; }

  template <typename Remove>
  __attribute__((always_inline)) format::Ref remove(std::uint64_t handle, Remove remove) {
    Use use(*this);
    if (CULPRIT_UNLIKELY(!use.allowed())) return 0;
    for (std::uint32_t back = 1; back <= kSlots; ++back) {
      Slot& slot = slots_[(next_ - back) % kSlots];
      if (CULPRIT_UNLIKELY(slot.handle.load(std::memory_order_relaxed) != handle)) continue;
      const auto ref = static_cast<format::Ref>(slot.rest.load(std::memory_order_relaxed));
      remove(slot);
      next_ -= back;  // the same slot next time: it is in the processor's cache
      return ref;
    }
    return 0;
  }

  std::atomic<std::uint32_t> busy_;
  std::atomic<std::uint32_t> open_;
  std::uint32_t next_;                // the owner's: number of records added
  std::atomic<std::uint32_t> waits_;  // calls of the owner before it may open the slots again
  std::uint32_t asked_;               // how often another thread moved a record from here
  const void* owner_;                 // the owner's thread_locks
  ListLink<YoungRecords> link_;
  Slot slots_[kSlots];
};

// The YoungRecords of all threads. Thread-safe.
class YoungList {
 public:
  // Starts the use of young records, if the kernel has membarrier(2).
  void start();

  // pause() moves all records to the index by `move(record)` and closes all slots until resume(). resume() is
  // async-signal-safe.
  void resume() { in_use_.store(started_, std::memory_order_release); }
  template <typename Move>
  void pause(Move move) {
    if (!in_use()) return;
    in_use_.store(false, std::memory_order_release);
    SpinGuard guard(lock_);
    empty_all(move);
  }

  // Whether any thread may have young records.
  bool in_use() const { return in_use_.load(std::memory_order_acquire); }

  // The calling thread starts (enter) and stops (leave) using `own`.
  void enter(YoungRecords* own);
  template <typename Move>
  void leave(YoungRecords* own, Move move);

  // The calling thread found `own` closed: opens it after the waiting time.
  void note_closed(YoungRecords* own) {
    std::uint32_t waits = own->waits_.load(std::memory_order_relaxed);
    if (waits != 0) {
      own->waits_.store(waits - 1, std::memory_order_relaxed);
    } else {
      open(own);
    }
  }

  // Moves the records of the thread that has this handle, if any, to the index by `move(record)`. The caller then
  // searches the index again: another thread may have moved the record.
  template <typename Move>
  void fetch(std::uint32_t space, std::uint64_t handle, Move move);

  // Moves the records of all threads.
  template <typename Move>
  void fetch_all(Move move) {
    if (!in_use()) return;
    SpinGuard guard(lock_);
    empty_all(move);
    for (YoungRecords& records : all_) {
      if (records.waits_.load(std::memory_order_relaxed) == 0) records.open_.store(1, std::memory_order_release);
    }
  }

 private:
  using All = LinkedList<YoungRecords, &YoungRecords::link_>;
  static constexpr std::uint32_t kFirstWait = 1024;
  static constexpr std::uint32_t kMostDoublings = 10;

  // With the lock held: close the slots, wait until their owners are done, and move the records.
  template <typename Move>
  void empty_all(Move move) {
    bool was_open = false;
    for (YoungRecords& records : all_) was_open |= close(&records);
    if (was_open) wait_for_owners();
    for (YoungRecords& records : all_) move_out(&records, move);
  }
  template <typename Move>
  static void empty(YoungRecords* records, Move move) {
    if (close(records)) wait_for_owners();
    move_out(records, move);
  }
  template <typename Move>
  static void move_out(YoungRecords* records, Move move) {
    if (!wait_until_idle(*records)) return;
    for (YoungRecords::Slot& slot : records->slots_) {
      YoungRecord record = slot.get();
      if (record.handle == 0) continue;
      move(record);
      slot.clear();
    }
  }
  // Returns whether another thread's slots were open: then call wait_for_owners() before wait_until_idle().
  static bool close(YoungRecords* records) {
    return records->open_.exchange(0, std::memory_order_acq_rel) != 0 && records->owner_ != &thread_locks;
  }
  CULPRIT_COLD static void wait_for_owners();
  // The owner is busy only for some instructions, unless it left them by a jump from a signal handler, or waits for
  // this processor: then returns false, and its records stay where they are until its next call or its end.
  CULPRIT_COLD static bool wait_until_idle(const YoungRecords& records);
  CULPRIT_COLD void open(YoungRecords* own);

  SpinLock lock_;
  std::atomic<bool> in_use_;
  bool started_;
  All all_;
};

template <typename Move>
void YoungList::leave(YoungRecords* own, Move move) {
  SpinGuard guard(lock_);
  if (!own->link_.is_in_list()) return;
  own->open_.store(0, std::memory_order_relaxed);  // closed by the owner itself: no wait is needed
  own->busy_.store(0, std::memory_order_relaxed);  // the owner may have left its slots by a jump
  empty(own, move);
  All::remove(own);
}

template <typename Move>
void YoungList::fetch(std::uint32_t space, std::uint64_t handle, Move move) {
  SpinGuard guard(lock_);
  for (YoungRecords& records : all_) {
    for (const YoungRecords::Slot& slot : records.slots_) {
      YoungRecord record = slot.get();
      if (record.handle != handle || record.tag >> 8 != space) continue;
      std::uint32_t doublings = records.asked_ < kMostDoublings ? records.asked_ : kMostDoublings;
      ++records.asked_;
      records.waits_.store(kFirstWait << doublings, std::memory_order_relaxed);
      empty(&records, move);
      return;
    }
  }
}

}  // namespace culprit
