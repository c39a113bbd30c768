// Requests of the processes of one `culprit run` at exit: that the run stops their other threads while one of them
// searches for lost memory. A file of fixed size beside that of run_starts.h, which the library maps for the time of
// the request. Each side takes what it finds there as hostile.
//
//     the process                     a helper of `culprit run`
//     kAsked            -->           (stops the threads, writes the words of scan_state.h to `words`)
//                       <--           kHeld, or kRefused
//     kSearched         -->           lets them go
//                       <--           kConfirmed: no thread has run in between
#pragma once

#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kExitStopsVersion = 1;
constexpr char kExitStopsEnding[] = ".stops";  // after the name of the file in CULPRIT_RUN_STARTS

enum class ExitStopState : std::uint32_t {
  kNone = 0,
  kAsked = 1,
  kHeld = 2,
  kRefused = 3,  // `why` tells the reason
  kSearched = 4,
  kConfirmed = 5,
  kEnded = 6,  // the process has no use for the place any more; the helper frees it
};

struct ExitStop {
  std::uint32_t pid;    // 0: free. The process stores its number there
  std::uint32_t state;  // an ExitStopState, stored last
  std::uint64_t start_ticks;
  std::uint32_t thread;       // that asks, and is not stopped
  std::uint32_t longest_ms;   // after kHeld: the helper lets them go then, whatever the process does
  std::uint64_t words, room;  // memory of the process for so many words of eight bytes ...
  std::uint64_t count;        // ... of which so many are used
  char why[128];              // NUL-terminated
};
static_assert(sizeof(ExitStop) == 176);

inline ExitStopState state_of(const ExitStop& place) {
  return static_cast<ExitStopState>(__atomic_load_n(&place.state, __ATOMIC_ACQUIRE));
}
inline void set_state(ExitStop* place, ExitStopState state) {
  __atomic_store_n(&place->state, static_cast<std::uint32_t>(state), __ATOMIC_RELEASE);
}
// Returns whether it was in the state `from`.
inline bool change_state(ExitStop* place, ExitStopState from, ExitStopState to) {
  auto expected = static_cast<std::uint32_t>(from);
  return __atomic_compare_exchange_n(&place->state, &expected, static_cast<std::uint32_t>(to), false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED);
}

struct ExitStops {
  static constexpr std::uint32_t kPlaces = 16;
  std::uint32_t version;
  std::uint32_t calls;   // changes with each request; a futex
  std::uint32_t helper;  // its process number, of ...
  std::uint32_t reserved;
  std::uint64_t pid_namespace;  // ... this namespace
  ExitStop places[kPlaces];
};

// A process that asks gives room for so many words, for each of its threads: general registers, and the extended state
// of large processors.
constexpr std::uint64_t kWordsOfStoppedThread = 4096;

}  // namespace culprit::format
