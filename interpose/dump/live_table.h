// The live allocations and resources. Their records are in the dump; a sharded private index finds them.
//
//   (space, handle) --hash--> shard --index--> Ref of the record
//
// Handles of two lives of a driver (driver/loaded_drivers.h) are kept apart: the life is a part of the space. It is
// always 0 in a process that has one driver all the time.
//
// A thread keeps its newest records out of the index (young_records.h) until another thread asks for them.
//
// Each shard has a spin lock, held while the index changes. Its holder may be interrupted by a signal handler that
// leaves by a jump (as that of time_line.h's lock): thread_locks.shard names the lock, and repair_left_shard() repairs
// the shard. A free takes the record out of the index before the driver is called (so that no other thread can be
// handed the address while the old record is still there) and puts it back if the driver refuses.
#pragma once

#include <cstdint>
#include <cstring>
#include <initializer_list>

#include "interpose/base/assertion.h"
#include "interpose/base/placement.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/dump/record_index.h"
#include "interpose/dump/record_pool.h"
#include "interpose/dump/thread_part.h"
#include "interpose/dump/young_records.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::space_of;

// Kinds that are made and ended most often. (For calls that take the driver long there is no gain.)
constexpr bool stays_young(format::Kind kind) {
  return kind == format::Kind::kStreamOrdered || kind == format::Kind::kEvent || kind == format::Kind::kStream;
}
constexpr bool may_be_young(std::uint8_t space) {
  return space == space_of(format::Kind::kStreamOrdered) || space == space_of(format::Kind::kEvent) ||
         space == space_of(format::Kind::kStream);
}

// The space in the life of the calling thread's driver.
inline std::uint32_t space_here(std::uint32_t space) { return space | static_cast<std::uint32_t>(current_life()) << 8; }

// The records of one thread.
struct ThreadRecords {
  YoungRecords young_memory;
  YoungRecords young_events;
  YoungRecords young_streams;
  RecordCache unused;

  // The young records of a space for which may_be_young() is true.
  YoungRecords& young(std::uint8_t space) {
    if (space == space_of(format::Kind::kStreamOrdered)) return young_memory;
    return space == space_of(format::Kind::kEvent) ? young_events : young_streams;
  }
  template <typename Visit>
  void for_each_young(Visit visit) {
    for (YoungRecords* young : {&young_memory, &young_events, &young_streams}) visit(young);
  }
};

// How an allocation was ended, kept for reports of double frees.
struct EndedBy {
  format::Ref stack = 0;
  std::uint32_t thread = format::kNoIndex;
  bool teardown = false;  // released with its context instead of being freed
  bool remember = false;  // false: nothing is kept
};

class LiveTable {
 public:
  // Records an allocation; the field `state` of `fields` is ignored. `own` here and below: the calling thread's
  // records, or nullptr. An indexed record with the same space, handle and device is replaced, at the latest when this
  // one enters the index: the driver reuses an address only after it was freed, perhaps by an unseen call. Returns 0
  // when there is no room. All functions here are thread-safe.
  format::Ref add(const format::AllocationRecord& fields, DumpWriter& dump, ThreadRecords* own = nullptr) {
    return make(
        fields.handle, fields.kind, space_of(fields.kind), fields.device,
        [&](format::AllocationRecord* record) {
          std::memcpy(reinterpret_cast<char*>(record) + sizeof(record->state),
                      reinterpret_cast<const char*>(&fields) + sizeof(fields.state),
                      sizeof(fields) - sizeof(fields.state));
        },
        dump, own);
  }

  // Like add(); fill(record) stores every field except `state`. `space`: that of the kind; in a process with several
  // lives of drivers that of space_here().
  template <typename Fill>
  format::Ref make(std::uint64_t handle, format::Kind kind, std::uint32_t space, std::uint8_t device, Fill fill,
                   DumpWriter& dump, ThreadRecords* own);

  // Finds a live record: on `device` if there is one, else on any device. Returns 0 if there is none.
  format::Ref find(std::uint8_t space, std::uint64_t handle, std::uint8_t device, DumpWriter& dump);

  // Like find(), and removes the record from the index, so that no other thread can find it. Follow with retire() or
  // put_back(). `device()` is called only when several devices have this handle: a query of the driver costs as much as
  // the rest.
  template <typename Device>
  format::Ref take(std::uint8_t space, std::uint64_t handle, Device device, DumpWriter& dump,
                   ThreadRecords* own = nullptr);
  void put_back(format::Ref ref, DumpWriter& dump);

  // The fast path for CUDA events and streams, which are usually ended soon by their own thread. spare(): the record
  // for the thread's next one on this device; Ref 0 = none, call add() instead. make_in_spare(): fills that record;
  // `fill(record)` need not store `state`, kind, thread and device, which the record still has. end_young(): take() and
  // retire() of one among the thread's young records; 0 = it is not there. take_back(): undoes end_young(), so that the
  // record is as take() returns it; false when the record was already reused.
  template <format::Kind kind>
  static YoungRecords::Spare spare(ThreadRecords* own, std::uint8_t device) {
    return own->young(space_of(kind)).spare(tag_of(space_of(kind), device));
  }
  template <format::Kind kind, typename Fill>
  void make_in_spare(std::uint64_t handle, const YoungRecords::Spare& spare, Fill fill, DumpWriter& dump,
                     ThreadRecords* own);
  template <format::Kind kind>
  format::Ref end_young(std::uint64_t handle, DumpWriter& dump, ThreadRecords* own) {
    format::Ref ref = own->young(space_of(kind)).end(handle);
    if (CULPRIT_LIKELY(ref != 0))
      publish_next<format::AllocationState::kLive, format::AllocationState::kEmpty>(
          dump.at<format::AllocationRecord>(ref));
    return ref;
  }
  template <format::Kind kind>
  bool take_back(format::Ref ref, std::uint64_t handle, DumpWriter& dump, ThreadRecords* own) {
    auto* record = dump.at<format::AllocationRecord>(ref);
    if (record->handle != handle || !own->young(space_of(kind)).take_spare(ref)) return false;
    publish(record, format::AllocationState::kFreeing, false);
    return true;
  }

  // Like make() for stream-ordered memory, where an unused record and a place among the thread's young ones are at
  // hand. Returns 0, without a change, otherwise. take_young() is the part of take() that looks there. Neither changes
  // errno.
  template <typename Fill>
  format::Ref make_at_hand(std::uint64_t handle, std::uint8_t device, Fill fill, DumpWriter& dump, ThreadRecords* own);
  format::Ref take_young(std::uint64_t handle, DumpWriter& dump, ThreadRecords* own) {
    const format::Ref ref = own->young_memory.take(handle);
    if (CULPRIT_LIKELY(ref != 0))
      publish(dump.at<format::AllocationRecord>(ref), format::AllocationState::kFreeing, false);
    return ref;
  }
  // Whether retire() needs no lock.
  static bool retires_at_hand(const ThreadRecords& own) { return RecordPool::has_place(own.unused); }

  // Ends a record that take() returned or that is not in the index. Its slot is reused.
  void retire(format::Ref ref, DumpWriter& dump, const EndedBy& by = {}, ThreadRecords* own = nullptr) {
    end_record(dump.at<format::AllocationRecord>(ref), by);
    records_.give(own == nullptr ? nullptr : &own->unused, ref, !by.remember, dump);
  }

  // Moves a live record to another handle (VMM handles change while the memory stays). `indexed` = false: removes it
  // from the index.
  void rekey(format::Ref ref, std::uint64_t handle, bool indexed, DumpWriter& dump);

  // Calls visit(record, ref, &ended_by) for each live record, one shard locked at a time; when it returns true the
  // record is ended at once. `visit` must not call back into this table. On the tracker's own stack only.
  template <typename Visit>
  void sweep(DumpWriter& dump, Visit visit);

  // The live record of this space whose [handle, handle + size) contains `address`, 0 if none. Slow: walks everything.
  format::Ref find_containing(std::uint8_t space, std::uint64_t address, DumpWriter& dump);

  // The last ended allocation with this handle, if it is still remembered: `record` as it was, except for `extra`,
  // whose place `ended` has. Slow: walks everything.
  bool find_ended(std::uint8_t space, std::uint64_t handle, format::AllocationRecord* record, EndedBy* by,
                  DumpWriter& dump);

  // The driver was unloaded: its handles mean nothing any more, and the next driver may give the same ones out. Live
  // records stay live, because the program did not end them; they only leave the index. On the tracker's own stack
  // only. visit(record): called for each of them, with its shard locked.
  template <typename Visit>
  void forget_lives(const LifeSet& lives, DumpWriter& dump, Visit visit);

  // After a jump out of one of these functions: repairs and unlocks the shard that the calling thread held, if any. The
  // entry that was being added or removed may be lost.
  void repair_left_shard(DumpWriter& dump);

  // Gives the private memory back; empty afterwards. Not while other threads use this.
  void free_memory() {
    for (Shard& shard : shards_) shard.index.free_memory();
    records_.free_memory();
  }

  // Allows threads to keep young records, or (pause) moves all of them to the index and forbids new ones.
  void start_young() { young_.start(); }
  void resume_young() { young_.resume(); }
  bool has_young() const { return young_.in_use(); }
  CULPRIT_COLD void pause_young(DumpWriter& dump) {
    on_own_stack([&] { young_.pause(into_index(dump)); });
  }

  // Call when a thread begins and when it ends.
  void begin_thread(ThreadRecords* own) {
    own->for_each_young([&](YoungRecords* young) { young_.enter(young); });
  }
  // Replaces end_thread() after a jump out of one of these functions: `own` may be inconsistent, and its unused records
  // are lost.
  void abandon_thread(ThreadRecords* own, DumpWriter& dump) {
    own->for_each_young([&](YoungRecords* young) { young_.leave(young, into_index(dump)); });
  }
  void end_thread(ThreadRecords* own, DumpWriter& dump) {
    own->for_each_young([&](YoungRecords* young) { young_.leave(young, into_index(dump)); });
    own->for_each_young([&](YoungRecords* young) {
      young->take_spares([&](format::Ref ref) { records_.give(&own->unused, ref, true, dump); });
    });
    records_.give_all(&own->unused, dump);
  }

 private:
  static constexpr int kShards = 256;  // one for each value of 8 bits of a hash
  struct alignas(64) Shard {
    SpinLock lock;
    RecordIndex index;
  };

  // Locks a shard, with a timeout: the lock may be held by a thread that left by a jump and has not called CUDA since.
  // After a timeout the event is only counted.
  class ShardGuard {
   public:
    ShardGuard(Shard& shard, DumpWriter& dump) : lock_(shard.lock) {
      thread_locks.shard = &lock_;
      locked_ = lock_.try_lock_for(kShardWaitMs, thread_locks.owner());
      if (CULPRIT_UNLIKELY(!locked_)) give_up(dump);
    }
    ~ShardGuard() {
      if (CULPRIT_LIKELY(locked_)) lock_.unlock();
      thread_locks.shard = nullptr;
    }
    ShardGuard(const ShardGuard&) = delete;
    ShardGuard& operator=(const ShardGuard&) = delete;
    bool locked() const { return CULPRIT_LIKELY(locked_); }

   private:
    static constexpr std::uint32_t kShardWaitMs = 1000;
    CULPRIT_COLD static void give_up(DumpWriter& dump) { add_counter(dump.header()->lock_timeouts, 1); }

    SpinLock& lock_;
    bool locked_;
  };

  // Uses other bits of the hash than the index.
  Shard& shard_of(std::uint64_t handle) { return shards_[quick_hash(handle) >> 56]; }
  // The space, with its life, of an entry of the index.
  static std::uint32_t space_of_slot(RecordIndex::Slot slot, const DumpWriter& dump) {
    return RecordIndex::space_of(slot, dump.at<format::AllocationRecord>(RecordIndex::ref_of(slot))->handle);
  }
  // life, space, device: a byte each, from bit 16 down.
  static std::uint32_t tag_of(std::uint32_t space, std::uint8_t device) { return space << 8 | device; }
  static format::Ref erase(Shard& shard, RecordIndex::Slot* slot) {
    const format::Ref ref = RecordIndex::ref_of(*slot);
    shard.index.erase(slot);
    return ref;
  }
  static RecordIndex::Slot* look_up(Shard& shard, std::uint32_t space, std::uint64_t handle, std::uint8_t device,
                                    const DumpWriter& dump);
  static constexpr std::uint32_t kGeneration = 1U << format::kStateBits;
  // Whether a record may change its state so. A free is recorded before the driver answers (live, freeing, empty, or
  // back to live), except where nothing can refuse it (live, empty); an event's is recorded at once, and taken back
  // (empty, freeing) when the driver refuses.
  static bool is_next_state(std::uint32_t present, format::AllocationState next) {
    using State = format::AllocationState;
    const auto from = static_cast<State>(present & (kGeneration - 1));
    return from != next;
  }
  // Publishes a new state under the next generation, so that a live reader notices that the record changed under it.
  static void publish(format::AllocationRecord* record, format::AllocationState state, bool next_generation) {
    CULPRIT_ASSERT(is_next_state(record->state, state));
    std::uint32_t generation = (record->state & ~(kGeneration - 1)) + (next_generation ? kGeneration : 0);
    __atomic_store_n(&record->state, generation | static_cast<std::uint32_t>(state), __ATOMIC_RELEASE);
  }
  // Like the function above, under the next generation, for a record whose present state is known.
  template <format::AllocationState from, format::AllocationState to>
  static void publish_next(format::AllocationRecord* record) {
    CULPRIT_ASSERT((record->state & (kGeneration - 1)) == static_cast<std::uint32_t>(from));
    constexpr std::uint32_t kStep = kGeneration + static_cast<std::uint32_t>(to) - static_cast<std::uint32_t>(from);
    __atomic_store_n(&record->state, record->state + kStep, __ATOMIC_RELEASE);
  }
  static void end_record(format::AllocationRecord* record, const EndedBy& by) {
    publish(record, format::AllocationState::kEmpty, true);
    record->ended = {by.stack, by.thread};
    record->flags = by.remember ? (by.teardown ? format::kFlagEnded | format::kFlagTornDown : format::kFlagEnded) : 0;
  }

  // Puts a record into the index. Returns its Ref, 0 when there is no room there; then the record is gone.
  format::Ref add_to_index(YoungRecord record, DumpWriter& dump, ThreadRecords* own) {
    std::uint32_t stale = 0;
    bool indexed = false;
    bool locked;
    Shard& shard = shard_of(record.handle);
    {
      ShardGuard guard(shard, dump);
      locked = guard.locked();
      if (locked)
        indexed = shard.index.put(record.handle, record.tag >> 8, static_cast<std::uint8_t>(record.tag), record.ref,
                                  dump, &stale);
    }
    if (CULPRIT_LIKELY(indexed && stale == 0)) return record.ref;
    return drop_stale(record.ref, stale, locked, dump, own);
  }
  // Like add_to_index(), but not inlined: for rare callers.
  __attribute__((noinline)) void move_to_index(YoungRecord record, DumpWriter& dump, ThreadRecords* own) {
    add_to_index(record, dump, own);
  }
  // move_to_index() as a function of the record alone.
  struct IntoIndex {
    LiveTable* table;
    DumpWriter* dump;
    void operator()(YoungRecord record) const { table->move_to_index(record, *dump, nullptr); }
  };
  IntoIndex into_index(DumpWriter& dump) { return {this, &dump}; }
  // Evicts a thread's oldest young record.
  __attribute__((noinline)) void make_place(YoungRecord record, DumpWriter& dump, ThreadRecords* own) {
    if (record.handle != 0) {
      add_to_index(record, dump, own);
    } else {
      records_.give(&own->unused, record.ref, true, dump);
    }
  }
  // make_in_spare() or make_at_hand() found the thread's young records closed. Keeps errno, because the fast path does
  // not save it.
  CULPRIT_COLD void index_spare(YoungRecord record, DumpWriter& dump, ThreadRecords* own);
  // add_to_index() found `stale` in the place of `ref`, or (0) no room, or could not lock the shard.
  CULPRIT_COLD format::Ref drop_stale(format::Ref ref, format::Ref stale, bool locked, DumpWriter& dump,
                                      ThreadRecords* own);

  format::Ref find_indexed(std::uint32_t space, std::uint64_t handle, std::uint8_t device, DumpWriter& dump);
  template <typename Device>
  format::Ref take_shared(std::uint8_t space, std::uint64_t handle, Device device, DumpWriter& dump);
  template <typename Device>
  format::Ref take_indexed(std::uint32_t space, std::uint64_t handle, Device device, DumpWriter& dump);
  // Moves the record to the index if it is among a thread's young records.
  CULPRIT_COLD void fetch_young(std::uint32_t space, std::uint64_t handle, DumpWriter& dump) {
    on_own_stack([&] { young_.fetch(space, handle, into_index(dump)); });
  }
  void fetch_all_young(DumpWriter& dump) { young_.fetch_all(into_index(dump)); }

  RecordPool records_;
  YoungList young_;
  Shard shards_[kShards];
};

template <typename Fill>
inline format::Ref LiveTable::make(std::uint64_t handle, format::Kind kind, std::uint32_t space, std::uint8_t device,
                                   Fill fill, DumpWriter& dump, ThreadRecords* own) {
  format::Ref ref = records_.take(own == nullptr ? nullptr : &own->unused, dump);
  if (CULPRIT_UNLIKELY(ref == 0)) return 0;
  auto* record = dump.at<format::AllocationRecord>(ref);
  fill(record);
  publish(record, format::AllocationState::kLive, true);
  const YoungRecord added = {handle, ref, tag_of(space, device)};
  if (stays_young(kind) && own != nullptr) {
    YoungRecords& young = own->young(static_cast<std::uint8_t>(space));
    if (CULPRIT_LIKELY(young.add(added, [&](YoungRecord old) { make_place(old, dump, own); }))) return ref;
    young_.note_closed(&young);
  }
  return add_to_index(added, dump, own);
}

template <typename Fill>
__attribute__((always_inline)) inline format::Ref LiveTable::make_at_hand(std::uint64_t handle, std::uint8_t device,
                                                                          Fill fill, DumpWriter& dump,
                                                                          ThreadRecords* own) {
  constexpr std::uint8_t kSpace = space_of(format::Kind::kStreamOrdered);
  auto* slot = own->young_memory.free_slot();
  if (CULPRIT_UNLIKELY(slot == nullptr)) return 0;
  const format::Ref ref = RecordPool::take_at_hand(&own->unused);
  if (CULPRIT_UNLIKELY(ref == 0)) return 0;
  auto* record = dump.at<format::AllocationRecord>(ref);
  record->handle = handle;
  fill(record);
  publish_next<format::AllocationState::kEmpty, format::AllocationState::kLive>(record);
  const YoungRecord added = {handle, ref, tag_of(kSpace, device)};
  if (CULPRIT_UNLIKELY(!own->young_memory.add_at(slot, added))) index_spare(added, dump, own);
  return ref;
}

template <typename Device>
inline format::Ref LiveTable::take(std::uint8_t space, std::uint64_t handle, Device device, DumpWriter& dump,
                                   ThreadRecords* own) {
  format::Ref ref = 0;
  if (own != nullptr && may_be_young(space)) ref = own->young(space).take(handle);
  if (ref == 0) {
    ref = take_shared(space, handle, device, dump);
    if (ref == 0) return 0;
  }
  // Another thread may be handed the address as soon as the driver has it back.
  CULPRIT_ASSERT(find_indexed(space_here(space), handle, dump.at<format::AllocationRecord>(ref)->device, dump) != ref);
  publish(dump.at<format::AllocationRecord>(ref), format::AllocationState::kFreeing, false);
  return ref;
}

template <typename Device>
__attribute__((noinline)) format::Ref LiveTable::take_shared(std::uint8_t space, std::uint64_t handle, Device device,
                                                             DumpWriter& dump) {
  const std::uint32_t here = space_here(space);
  const format::Ref ref = take_indexed(here, handle, device, dump);
  if (CULPRIT_LIKELY(ref != 0 || !may_be_young(space) || !young_.in_use())) return ref;
  fetch_young(here, handle, dump);
  return take_indexed(here, handle, device, dump);
}

template <format::Kind kind, typename Fill>
__attribute__((always_inline)) inline void LiveTable::make_in_spare(std::uint64_t handle,
                                                                    const YoungRecords::Spare& spare, Fill fill,
                                                                    DumpWriter& dump, ThreadRecords* own) {
  auto* record = dump.at<format::AllocationRecord>(spare.ref);
  record->handle = handle;
  fill(record);
  publish_next<format::AllocationState::kEmpty, format::AllocationState::kLive>(record);
  if (CULPRIT_LIKELY(own->young(space_of(kind)).add_spare(spare, handle))) return;
  index_spare({handle, spare.ref, tag_of(space_here(space_of(kind)), record->device)}, dump, own);
}

template <typename Device>
inline format::Ref LiveTable::take_indexed(std::uint32_t space, std::uint64_t handle, Device device, DumpWriter& dump) {
  Shard& shard = shard_of(handle);
  {
    ShardGuard guard(shard, dump);
    if (!guard.locked()) return 0;
    const RecordIndex::Found found = shard.index.find(handle, space, dump);
    if (found.slot == nullptr) return 0;
    if (CULPRIT_LIKELY(!found.several)) return erase(shard, found.slot);
  }
  const std::uint8_t here = device();  // asks the driver: not with a lock held
  ShardGuard guard(shard, dump);
  RecordIndex::Slot* slot = guard.locked() ? look_up(shard, space, handle, here, dump) : nullptr;
  return slot == nullptr ? 0 : erase(shard, slot);
}

template <typename Visit>
void LiveTable::forget_lives(const LifeSet& lives, DumpWriter& dump, Visit visit) {
  fetch_all_young(dump);
  for (Shard& shard : shards_) {
    ShardGuard guard(shard, dump);
    if (!guard.locked()) continue;
    // Erasing an entry moves others into its place.
    while (RecordIndex::Slot* slot = shard.index.find_any([&](RecordIndex::Slot one) {
      return lives.has(static_cast<std::uint8_t>(space_of_slot(one, dump) >> 8));
    })) {
      visit(*dump.at<format::AllocationRecord>(RecordIndex::ref_of(*slot)));
      shard.index.erase(slot);
    }
  }
}

template <typename Visit>
void LiveTable::sweep(DumpWriter& dump, Visit visit) {
  fetch_all_young(dump);
  for (Shard& shard : shards_) {
    ShardGuard guard(shard, dump);
    if (!guard.locked()) continue;
    // Erasing an entry moves others into its place, so repeat until no entry is left to end.
    for (bool again = true; again;) {
      again = false;
      constexpr int kAtOnce = 24;
      RecordIndex::Slot ending[kAtOnce];
      EndedBy by[kAtOnce];
      int count = 0;
      shard.index.for_each([&](RecordIndex::Slot slot) {
        const format::Ref ref = RecordIndex::ref_of(slot);
        if (count == kAtOnce) {
          again = true;
        } else if (visit(*dump.at<format::AllocationRecord>(ref), ref, &by[count])) {
          ending[count++] = slot;
        } else {
          by[count] = {};
        }
      });
      for (int i = 0; i < count; ++i) {
        if (RecordIndex::Slot* slot = shard.index.find(ending[i])) shard.index.erase(slot);
        retire(RecordIndex::ref_of(ending[i]), dump, by[i]);
      }
    }
  }
}

}  // namespace culprit
