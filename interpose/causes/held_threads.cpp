#include "interpose/causes/held_threads.h"

#include <linux/futex.h>
#include <sys/prctl.h>

#include <cstdlib>

#include "interpose/base/text_writer.h"
#include "interpose/process/file_of_run.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/system/os.h"
#include "interpose/system/own_files.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

constexpr std::uint32_t kLongestHoldMs = 1500;
constexpr std::uint32_t kLongestLetGoMs = 1000;
constexpr std::uint32_t kMoreMs = 1000;    // beside the search itself
constexpr std::uint64_t kMoreThreads = 8;  // that begin meanwhile

// Of Yama: 1 means that only an ancestor of a process may trace it, or a process that it has named.
bool only_named_may_trace() {
  char text[16];
  if (read_small_file("/proc/sys/kernel/yama/ptrace_scope", text, sizeof(text)) == 0) return false;
  return std::strtol(text, nullptr, 10) == 1;
}

}  // namespace

HeldThreads::~HeldThreads() {
  let_go();
  unmap_items(words_, room_);
  if (file_ != nullptr) os.unmap(file_, sizeof(*file_));
}

bool HeldThreads::open(const char* run_starts) {
  file_ = map_file_of_run<format::ExitStops>(run_starts, format::kExitStopsEnding, format::kExitStopsVersion);
  return file_ != nullptr && file_->helper != 0;
}

bool HeldThreads::take_place(Process& process) {
  if (process.dump.header()->pid_namespace != file_->pid_namespace) return false;
  room_ = (threads_seen() + kMoreThreads) * format::kWordsOfStoppedThread;
  words_ = map_items<std::uint64_t>(room_);
  if (words_ == nullptr) return false;
  for (format::ExitStop& place : file_->places) {
    std::uint32_t free = 0;
    if (!__atomic_compare_exchange_n(&place.pid, &free, static_cast<std::uint32_t>(process.pid), false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    place.start_ticks = process.dump.header()->start_time_ticks;
    place.thread = static_cast<std::uint32_t>(system_call(SYS_gettid));
    place.longest_ms = kMoreMs + static_cast<std::uint32_t>(2 * longest_search_ns(process.options) / 1'000'000);
    place.words = reinterpret_cast<std::uint64_t>(words_);
    place.room = room_;
    place.count = 0;
    place.why[0] = '\0';
    place_ = &place;
    return true;
  }
  return false;
}

// The kernel does not tell which process the program itself has named: that one is replaced, at exit.
void HeldThreads::permit_helper() const {
  if (only_named_may_trace()) system_call(SYS_prctl, PR_SET_PTRACER, file_->helper, 0, 0, 0);
}

HeldThreads::State HeldThreads::wait_while(State state, std::uint32_t milliseconds) const {
  constexpr std::uint32_t kPauseMicroseconds = 500;
  for (std::uint32_t pauses = 2 * milliseconds;; --pauses) {
    const State now = state_of(*place_);
    if (now != state || pauses == 0) return now;
    sleep_microseconds(kPauseMicroseconds);
  }
}

void HeldThreads::call_helper() {
  __atomic_fetch_add(&file_->calls, 1, __ATOMIC_RELEASE);
  os.futex(&file_->calls, FUTEX_WAKE, 1, 0);
}

HeldThreads::Result HeldThreads::hold(Process& process) {
  if (process.options.run_starts[0] == '\0' || calls_restricted_now() || !open(process.options.run_starts) ||
      !take_place(process))
    return Result::kNoRun;
  permit_helper();
  set_state(place_, State::kAsked);
  call_helper();
  const State state = wait_while(State::kAsked, kLongestHoldMs);
  count_ = __atomic_load_n(&place_->count, __ATOMIC_RELAXED);
  if (state == State::kHeld && count_ <= room_) return Result::kHeld;
  char why[sizeof(place_->why)];
  copy_text(why, sizeof(why), state == State::kRefused ? place_->why : "no answer came in time");
  log_not_held(process.options, why);
  return Result::kRefused;
}

bool HeldThreads::let_go() {
  if (place_ == nullptr) return false;
  const bool held = change_state(place_, State::kHeld, State::kSearched) &&
                    wait_while(State::kSearched, kLongestLetGoMs) == State::kConfirmed;
  set_state(place_, State::kEnded);
  call_helper();
  place_ = nullptr;
  return held;
}

}  // namespace culprit
