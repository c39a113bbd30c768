// The memory that new streams are known to take. A reading costs as much as a stream, and programs make streams in
// loops.
//
// The driver keeps the memory of a stream that ended, and the next one uses it. So only a stream that raises the number
// of streams that live at once can take memory; and after some dozens of those of one sort (context and call) all take
// the same on average, because the driver gives them parts of its blocks of 2 MiB (H100, H200, driver 580: 34 MiB for
// 64, 54 MiB for 100). Of later ones few are measured, and the others are charged the average.
//
// A loop that makes and destroys a stream changes nothing that threads share: the place of the stream that a thread
// ended last stays counted as live until its next stream takes it (VacantStream), or the thread ends.
//
// Thread-safe: a stream that another thread makes or ends at the same moment may be measured without need.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/driver/api.h"
#include "interpose/process/thread_state.h"

namespace culprit {

struct StreamSort {
  std::atomic<std::uint64_t> key;  // 0 = free
  std::atomic<std::uint32_t> made;
  std::atomic<std::uint32_t> live;        // with the vacant places of threads
  std::atomic<std::uint32_t> most;        // live at once
  std::atomic<std::uint32_t> measured;    // of those that raised `most`
  std::atomic<std::int64_t> taken;        // by the measured ones
  std::atomic<std::uint32_t> generation;  // of the context's number: vacant places of an earlier one are void

  bool has_place(const VacantStream& vacant) const {
    return vacant.sort == this && vacant.generation == generation.load(std::memory_order_relaxed);
  }
};

class StreamUse {
 public:
  using Sort = StreamSort;
  enum class Next : std::uint8_t {
    kTeaches,   // measure it
    kRepeated,  // measure it if there is time left: it checks what is known
    kKnown,     // takes `bytes`
  };
  struct Expected {
    Next next;
    bool raises;
    std::int64_t bytes;
  };

  // nullptr: there are too many sorts.
  Sort* find(std::uint32_t context, Api api, bool add) {
    const std::uint64_t key = key_of(context, api);
    for (Sort& sort : sorts_) {
      std::uint64_t present = sort.key.load(std::memory_order_acquire);
      if (present == 0 && add && sort.key.compare_exchange_strong(present, key)) return &sort;
      if (present == key) return &sort;
      if (present == 0 && !add) return nullptr;
    }
    return nullptr;
  }

  // Whether the calling thread's next stream of this sort takes `vacant`, the place of its last one, and is not to be
  // measured.
  static bool is_settled(const VacantStream& vacant, std::uint32_t context, Api api) {
    const Sort* sort = vacant.sort;
    return sort != nullptr && sort->has_place(vacant) &&
           sort->key.load(std::memory_order_relaxed) == key_of(context, api) &&
           !is_check(sort->made.load(std::memory_order_relaxed), false);
  }

  // `vacant` here and below: the calling thread's.
  static Expected expected(const Sort& sort, const VacantStream& vacant) {
    constexpr std::uint32_t kEnough = 64;
    const std::uint32_t made = sort.made.load(std::memory_order_relaxed);
    const std::uint32_t measured = sort.measured.load(std::memory_order_relaxed);
    const bool raises = !sort.has_place(vacant) &&
                        sort.live.load(std::memory_order_relaxed) >= sort.most.load(std::memory_order_relaxed);
    if (raises && measured < kEnough) return {Next::kTeaches, raises, 0};
    return {is_check(made, raises) ? Next::kRepeated : Next::kKnown, raises,
            raises ? sort.taken.load(std::memory_order_relaxed) / measured : 0};
  }

  static void note_made(Sort& sort, VacantStream* vacant) {
    // It only spreads the readings: one that two threads count as one does no harm, and the lock would cost 20 cycles.
    sort.made.store(sort.made.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (sort.has_place(*vacant)) {
      vacant->sort = nullptr;
      return;
    }
    const std::uint32_t live = sort.live.fetch_add(1, std::memory_order_relaxed) + 1;
    if (live > sort.most.load(std::memory_order_relaxed)) sort.most.store(live, std::memory_order_relaxed);
  }
  static void note_measured(Sort& sort, std::int64_t taken) {
    sort.taken.fetch_add(taken, std::memory_order_relaxed);
    sort.measured.fetch_add(1, std::memory_order_relaxed);
  }
  void note_ended(std::uint32_t context, Api api, VacantStream* vacant) {
    Sort* sort = find(context, api, false);
    if (sort == nullptr) return;
    if (sort->has_place(*vacant)) return take_from_live(*sort);
    give_up(vacant);
    *vacant = {sort, sort->generation.load(std::memory_order_relaxed)};
  }
  // After note_ended(): it did not end.
  void note_stays(std::uint32_t context, Api api, VacantStream* vacant) {
    Sort* sort = find(context, api, false);
    if (sort == nullptr) return;
    if (sort->has_place(*vacant)) {
      vacant->sort = nullptr;
    } else {
      sort->live.fetch_add(1, std::memory_order_relaxed);
    }
  }
  // The thread ends, or its last stream was of another sort.
  static void give_up(VacantStream* vacant) {
    Sort* sort = vacant->sort;
    if (sort != nullptr && sort->has_place(*vacant)) take_from_live(*sort);
    vacant->sort = nullptr;
  }

  // Its streams and their memory ended with it; the number may come again for another context.
  void forget_context(std::uint32_t context) {
    for (Sort& sort : sorts_) {
      const std::uint64_t key = sort.key.load(std::memory_order_acquire);
      if (key == 0 || (key - 1) >> 16 != context) continue;
      sort.made = sort.live = sort.most = sort.measured = 0;
      sort.taken = 0;
      sort.generation.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  static std::uint64_t key_of(std::uint32_t context, Api api) {
    return (static_cast<std::uint64_t>(context) << 16 | static_cast<std::uint16_t>(api)) + 1;
  }
  static void take_from_live(Sort& sort) {
    std::uint32_t live = sort.live.load(std::memory_order_relaxed);
    while (live != 0 && !sort.live.compare_exchange_weak(live, live - 1, std::memory_order_relaxed)) {
    }
  }

  // Runs of four: a block of 2 MiB has room for about so many. Of streams in the places of others ever fewer: a loop of
  // them would spend its share of the time on readings that say 0 again.
  static bool is_check(std::uint32_t made, bool raises) {
    constexpr std::uint32_t kPeriod = 1024, kRun = 4;
    if (made < kPeriod) return made < kRun;
    const std::uint32_t last_doubling = 1U << (31 - __builtin_clz(made));
    return (raises ? made % kPeriod : made - last_doubling) < kRun;
  }

  Sort sorts_[64];
};

}  // namespace culprit
