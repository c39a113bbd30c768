#include "interpose/causes/lost_scan.h"

#include <errno.h>

#include <algorithm>
#include <new>

#include "interpose/base/placement.h"
#include "interpose/base/store_release.h"
#include "interpose/causes/lost_searcher.h"
#include "interpose/format/scan_state.h"
#include "interpose/process/process.h"
#include "interpose/system/clock.h"
#include "interpose/system/frozen_child.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/restrictions.h"

// Seen by `culprit scan PID` from outside.
extern "C" __attribute__((visibility("default"))) culprit::format::ScanState culprit_scan;
CULPRIT_AT_LOAD culprit::format::ScanState culprit_scan;

namespace culprit {
namespace {

using format::ScanPhase;

// All threads of the program wait while devices are read: for this long at least, or for what the copy and the rest
// leave of the longest stop.
constexpr std::uint64_t kLeastOnDevicesNs = 20'000'000;

std::uint64_t longest_on_devices_ns(std::uint64_t most_us) {
  constexpr std::uint64_t kRestUs = 4000;
  const std::uint64_t rest_us = copying_microseconds(culprit_scan.private_bytes) + kRestUs;
  return std::max(most_us > rest_us ? (most_us - rest_us) * 1000 : 0, kLeastOnDevicesNs);
}

void set_phase(ScanPhase phase, int error = 0) {
  culprit_scan.error = error;
  store_release(&culprit_scan.phase, phase);
}

// In one mapping, which the copy inherits.
struct FrozenSearch {
  CallerState no_caller;
  LostSearcher search;
  explicit FrozenSearch(Process& process) : no_caller{}, search(process, no_caller, true) {}
};

template <typename Item>
Item* map_list(std::uint64_t most, std::uint64_t* place) {
  int error = 0;
  auto* list = static_cast<Item*>(map_private((most + 1) * sizeof(Item), &error));
  *place = reinterpret_cast<std::uint64_t>(list);
  return list;
}

void write_result(LostSearcher& search) {
  auto* list = map_list<format::LostAllocation>(search.memory().size(), &culprit_scan.lost);
  constexpr std::uint64_t kMostLast = 65536;
  auto* last = map_list<format::LastHolderRecord>(kMostLast, &culprit_scan.last);
  if (list == nullptr || last == nullptr) {
    culprit_scan.reason = format::LostSearch::kGivenUp;
    return;
  }
  search.for_each_lost([&](const GpuBlock& block, std::uint64_t place) {
    list[culprit_scan.lost_count++] = {block.allocation, block.state, place};
  });
  search.for_each_last([&](const format::LastHolderRecord& found) {
    if (culprit_scan.last_count < kMostLast) last[culprit_scan.last_count++] = found;
  });
}

[[noreturn]] void run_in_copy(LostSearcher& search) {
  set_phase(ScanPhase::kSearching);
  keep_own_ranges_in_copy();
  const std::uint64_t start = clock_ns(CLOCK_MONOTONIC);
  culprit_scan.lost = culprit_scan.lost_count = culprit_scan.last = culprit_scan.last_count = 0;
  culprit_scan.reason = search.search();
  if (culprit_scan.reason == format::LostSearch::kDone) write_result(search);
  culprit_scan.search_bytes = search.bytes_read();
  culprit_scan.search_ns = clock_ns(CLOCK_MONOTONIC) - start;
  set_phase(ScanPhase::kReady);
  wait_as_frozen_child();
}

// Returns the number of the copy, an errno, negative, or 0: none is needed.
long search_in_copy(FrozenSearch* frozen, const std::uint64_t* words, std::uint64_t count, std::uint64_t devices_ns) {
  LostSearcher& search = frozen->search;
  culprit_scan.reason = search.prepare();
  const GpuBlocks& blocks = search.memory();
  culprit_scan.live_count = blocks.size();
  culprit_scan.live_bytes = 0;
  for (std::uint32_t i = 0; i < blocks.size(); ++i) culprit_scan.live_bytes += blocks[i].end - blocks[i].begin;
  if (culprit_scan.reason != format::LostSearch::kDone || blocks.size() == 0) return 0;
  culprit_scan.frozen_ns = clock_ns(CLOCK_MONOTONIC);
  search.freeze(words, count, culprit_scan.frozen_ns + devices_ns);
  const long copy = make_frozen_child(FrozenFiles::kOwn);
  if (copy == 0) run_in_copy(search);
  return copy;
}

}  // namespace

void begin_lost_scan(Process& process, const std::uint64_t* words, std::uint64_t count) {
  end_lost_scan();
  culprit_scan.private_bytes = private_bytes_of_process();
  if (calls_restricted_now()) {
    set_phase(ScanPhase::kFailed, EPERM);
    return;
  }
  const std::uint64_t most = culprit_scan.most_us != 0 ? culprit_scan.most_us : kUsualMostMicroseconds;
  if (copying_microseconds(culprit_scan.private_bytes) > most) {
    set_phase(ScanPhase::kTooLarge);
    return;
  }
  int error = 0;
  void* memory = map_private(sizeof(FrozenSearch), &error);
  if (memory == nullptr) {
    set_phase(ScanPhase::kFailed, error);
    return;
  }
  auto* frozen = new (memory) FrozenSearch(process);
  const long copy = search_in_copy(frozen, words, count, longest_on_devices_ns(most));
  frozen->search.close();
  frozen->~FrozenSearch();
  unmap_private(memory, sizeof(FrozenSearch));
  if (copy == 0) {
    set_phase(ScanPhase::kKnown);
    return;
  }
  if (copy < 0) {
    set_phase(ScanPhase::kFailed, static_cast<int>(-copy));
    return;
  }
  culprit_scan.copy = static_cast<int>(copy);
  set_phase(ScanPhase::kCopied);
}

void end_lost_scan() {
  const int copy = culprit_scan.copy;
  if (copy != 0 && end_frozen_child(copy)) culprit_scan.copy = 0;
  set_phase(ScanPhase::kNone);
}

}  // namespace culprit
