// The few records that each thread made last and has not ended yet: kept by the thread itself and not in the index that
// all threads share, because much of what is made is ended at once, by the thread that made it. That saves two locks,
// which is a fifth of what recording a pair of calls costs.
//
// The owner uses plain loads and stores. Whoever else needs a thread's records (an allocation that another thread
// frees, a look at everything that is live) takes them from it, into the index:
//
//     owner                               somebody else, with the list's lock held
//     busy = 1                            open = 0
//     open? then use the slots            membarrier(2): every thread passes a full barrier
//     busy = 0                            wait until busy == 0, move the slots' records
//
// The barrier stands between the owner's store and its load: either the owner sees that it is closed, or it is seen to
// be busy. A thread whose records were asked for uses the index for a while, longer each time, so that a program whose
// threads free each other's memory pays for this seldom.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/base/spin_lock.h"
#include "interpose/format/dump_format.h"

namespace culprit {

struct YoungRecord {
  std::uint64_t handle;  // 0 = none, or a spare record
  format::Ref ref;       // 0 = none
  std::uint32_t tag;     // space << 8 | device
  bool is_free() const { return (handle | ref) == 0; }
};

// A thread's own, of one space: a handle names one record. All zeros = closed. All functions are for the owner, and not
// to be entered from a signal handler that interrupted them: behind the guard of the hooks.
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
    // Whoever sees that the handle is gone sees that there is no record either.
    void clear() {
      rest.store(0, std::memory_order_relaxed);
      handle.store(0, std::memory_order_release);
    }
  };

 public:
  // Keeps a record; `evict(record)` receives what has to make place for it: a record that must go to the index, or (its
  // handle is 0) a spare one. False when this is closed.
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

  // Takes a record out again. Returns 0 when it is not here.
  format::Ref take(std::uint64_t handle) {
    return remove(handle, [](Slot& slot) { slot.clear(); });
  }

  // A thread that makes and ends the same thing over and over leaves its record where it is. end(): take() that keeps
  // the record as a spare one. spare(): the one that lies where the next record will, and had this tag; 0 = none. It
  // stays there until add_spare() gives it a handle, or take_spare() takes it out: false when it is not there any more,
  // for add_spare() when this was closed; then it is the caller's.
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

  // Takes all spare ones out, by `give(ref)`.
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

  // The owner is at the slots.
  class Use {
   public:
    explicit Use(YoungRecords& records) : records_(records) {
      records_.busy_.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);  // for the compiler; the processor: see above
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
  std::uint32_t next_;                // the owner's: counts what was added
  std::atomic<std::uint32_t> waits_;  // calls that the owner makes without this before it may open it again
  std::uint32_t asked_;               // how often somebody else asked for a record that was here
  YoungRecords* other_;               // of the next thread
  Slot slots_[kSlots];
};

// Those of all threads. All zeros = not in use. Lives in memory that the kernel wipes in a fork child. Thread-safe.
class YoungList {
 public:
  // Begins, if the kernel has what it takes. Call prepare_to_meet_threads() while the process has only one thread.
  void start();

  // Begins again (async-signal-safe), or moves everything to the index by `move(record)` and ends until then.
  void resume() { in_use_.store(started_, std::memory_order_release); }
  template <typename Move>
  void pause(Move move) {
    if (!in_use()) return;
    in_use_.store(false, std::memory_order_release);
    SpinGuard guard(lock_);
    empty(all(), move);
  }

  // Whether any thread may have something here.
  bool in_use() const { return in_use_.load(std::memory_order_acquire); }

  // The calling thread begins and ends to use `own`.
  void enter(YoungRecords* own);
  template <typename Move>
  void leave(YoungRecords* own, Move move);

  // `own`, the calling thread's, was found closed: opens it when its time has come.
  void note_closed(YoungRecords* own) {
    std::uint32_t waits = own->waits_.load(std::memory_order_relaxed);
    if (waits != 0) {
      own->waits_.store(waits - 1, std::memory_order_relaxed);
    } else {
      open(own);
    }
  }

  // Moves the records of the thread that has this handle, if any, to the index by `move(record)`. What the caller did
  // not find in the index before may be there afterwards, whoever moved it.
  template <typename Move>
  void fetch(std::uint8_t space, std::uint64_t handle, Move move);

  // Moves everything.
  template <typename Move>
  void fetch_all(Move move) {
    if (!in_use()) return;
    SpinGuard guard(lock_);
    empty(all(), move);
    for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
      if (records->waits_.load(std::memory_order_relaxed) == 0) records->open_.store(1, std::memory_order_release);
    }
  }

 private:
  static constexpr std::uint32_t kFirstWait = 1024;
  static constexpr std::uint32_t kMostDoublings = 10;

  // Which of the list: the given one, or all.
  struct Choice {
    YoungRecords* only;
    bool covers(const YoungRecords* records) const { return only == nullptr || only == records; }
  };
  static Choice all() { return {nullptr}; }

  // With the lock held: closes, waits until the owners are done, and moves.
  template <typename Move>
  void empty(Choice choice, Move move) {
    close(choice);
    for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
      if (!choice.covers(records) || !wait_until_idle(*records)) continue;
      for (YoungRecords::Slot& slot : records->slots_) {
        YoungRecord record = slot.get();
        if (record.handle == 0) continue;
        move(record);
        slot.clear();
      }
    }
  }
  CULPRIT_COLD void close(Choice choice);
  // The owner is at its slots for some instructions, unless a jump from a signal handler threw it out of them, or it
  // has to wait for this very processor: then false, and its records stay where they are until it calls again or ends.
  CULPRIT_COLD static bool wait_until_idle(const YoungRecords& records);
  CULPRIT_COLD void open(YoungRecords* own);

  SpinLock lock_;
  std::atomic<bool> in_use_;
  bool started_;
  YoungRecords* first_;
};

template <typename Move>
void YoungList::leave(YoungRecords* own, Move move) {
  SpinGuard guard(lock_);
  YoungRecords** link = &first_;
  while (*link != nullptr && *link != own) link = &(*link)->other_;
  if (*link == nullptr) return;
  own->open_.store(0, std::memory_order_relaxed);  // by its owner: nobody to wait for
  own->busy_.store(0, std::memory_order_relaxed);  // it may have been thrown out of its slots
  empty({own}, move);
  *link = own->other_;
}

template <typename Move>
void YoungList::fetch(std::uint8_t space, std::uint64_t handle, Move move) {
  SpinGuard guard(lock_);
  for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
    for (const YoungRecords::Slot& slot : records->slots_) {
      YoungRecord record = slot.get();
      if (record.handle != handle || record.tag >> 8 != space) continue;
      std::uint32_t doublings = records->asked_ < kMostDoublings ? records->asked_ : kMostDoublings;
      ++records->asked_;
      records->waits_.store(kFirstWait << doublings, std::memory_order_relaxed);
      empty({records}, move);
      return;
    }
  }
}

}  // namespace culprit
