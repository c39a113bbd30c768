#include "interpose/causes/lost_search.h"

#include <new>

#include "interpose/base/store_release.h"
#include "interpose/causes/held_threads.h"
#include "interpose/causes/lost_searcher.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/raw_calls.h"

namespace culprit {

using format::LostSearch;

namespace {

LostSearch run_search(Process& process, const CallerState& caller, HeldThreads* held, std::uint64_t* bytes) {
  int error = 0;
  void* memory = map_private(sizeof(LostSearcher), &error);
  if (memory == nullptr) return LostSearch::kGivenUp;
  auto* search = new (memory) LostSearcher(process, caller);
  const LostSearch end = search->run(held, bytes);
  search->~LostSearcher();
  unmap_private(memory, sizeof(LostSearcher));
  return end;
}

LostSearch run_beside_held_threads(Process& process, const CallerState& caller, std::uint64_t* bytes) {
  HeldThreads held;
  switch (held.hold(process)) {
    case HeldThreads::Result::kHeld:
      return run_search(process, caller, &held, bytes);
    case HeldThreads::Result::kNoRun:
      return LostSearch::kThreads;
    case HeldThreads::Result::kRefused:
      break;
  }
  return LostSearch::kThreadsNotStopped;
}

}  // namespace

void search_lost(Process& process, const CallerState& caller) {
  format::Header* header = process.dump.header();
  if (header->lost_search != LostSearch::kNotRun) return;
  if (!process.options.search_lost) return;
  const std::uint64_t start = clock_ns(CLOCK_MONOTONIC);
  std::uint64_t bytes = 0;
  LostSearch end = run_search(process, caller, nullptr, &bytes);
  // Thread-local objects of another thread that calls exit() are destroyed already.
  if (end == LostSearch::kThreads && is_main_thread()) end = run_beside_held_threads(process, caller, &bytes);
  header->lost_search_bytes = bytes;
  header->lost_search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  store_release(&header->lost_search, process.dump.stopped() ? LostSearch::kGivenUp : end);
}

}  // namespace culprit
