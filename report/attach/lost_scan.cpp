#include "report/attach/lost_scan.h"

#include <cstddef>
#include <cstring>
#include <optional>

#include "interpose/format/scan_state.h"
#include "report/attach/process_copy.h"
#include "report/base/log.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

using format::ScanPhase;
using format::ScanState;
using std::chrono::milliseconds;

constexpr std::uint64_t kMostLost = 1 << 26;
constexpr milliseconds kLongestSearch{60000};

class LostScanning {
 public:
  LostScanning(const TracedProcess& process, const ScanOrder& order) : process_(process), order_(order) {}

  LostScanResult run() {
    const std::uint64_t place = place_of_variable(process_, "culprit_scan");
    const auto most = static_cast<std::uint64_t>(order_.longest_stop.count());
    process_.write_memory(place + offsetof(ScanState, most_us), &most, sizeof(most));
    LostScanResult result;
    CopyRequest request(process_, {Injection::kScan, order_.library, order_.limit, "it has no GPU memory"});
    result.threads = request.facts().stopped_threads;
    result.stopped_ns = static_cast<std::uint64_t>(request.facts().longest_stop.count());
    const ScanState state = state_of(process_, place);
    switch (state.phase) {
      case ScanPhase::kKnown:
        fill(state, &result);
        return result;
      case ScanPhase::kCopied:
        break;
      case ScanPhase::kTooLarge:
        throw AttachError(process_.name() + " has " + format_bytes(state.private_bytes) +
                          " of private memory, and a copy of it may stop it for more than " + format_time(most * 1000) +
                          ": a longer --longest-stop allows it");
      default:
        throw AttachError(process_.name() + " could not make a copy of itself, in which its memory is searched: " +
                          std::strerror(state.error));
    }
    request.set_copy(state.copy);
    const std::optional<pid_t> copy = find_copy(process_, state.copy);
    if (!copy) throw no_end();
    fill(state, &result);
    search_in(TracedProcess(*copy), place, &request, &result);
    return result;
  }

 private:
  AttachError no_end() const {
    return AttachError("the copy of " + process_.name() +
                       " in which its memory was to be searched ended early: try again");
  }

  ScanState state_of(const TracedProcess& process, std::uint64_t place) const {
    ScanState state = {};
    if (!process.read_memory(place, &state, sizeof(state))) throw AttachError(process_.name() + " has ended");
    return state;
  }

  static void fill(const ScanState& state, LostScanResult* result) {
    result->reason = state.reason;
    result->live_count = state.live_count;
    result->live_bytes = state.live_bytes;
    result->search_ns = state.search_ns;
    result->search_bytes = state.search_bytes;
  }

  void search_in(const TracedProcess& copy, std::uint64_t place, CopyRequest* request, LostScanResult* result) const {
    const auto begin = std::chrono::steady_clock::now();
    for (;;) {
      ScanState state = {};
      if (!copy.read_memory(place, &state, sizeof(state))) throw no_end();
      const auto waited = std::chrono::steady_clock::now() - begin;
      if (state.phase == ScanPhase::kReady) {
        fill(state, result);
        read_lost(copy, state, result);
        log::wipe_status();
        return;
      }
      if (waited > kLongestSearch) throw no_end();
      if (waited > milliseconds(500)) log::show_status("searching a copy of " + printable(process_.name()));
      request->pause();
    }
  }

  template <typename Item>
  std::vector<Item> read_list(const TracedProcess& copy, std::uint64_t place, std::uint64_t count) const {
    if (count > kMostLost) throw no_end();
    std::vector<Item> list(count);
    if (!list.empty() && !copy.read_memory(place, list.data(), list.size() * sizeof(Item))) throw no_end();
    return list;
  }

  void read_lost(const TracedProcess& copy, const ScanState& state, LostScanResult* result) const {
    for (const auto& one : read_list<format::LostAllocation>(copy, state.lost, state.lost_count)) {
      format::HolderRecord record = {};
      record.allocation = one.allocation;
      record.state = one.state;
      record.place = one.place;
      result->lost.push_back(record);
    }
    result->last = read_list<format::LastHolderRecord>(copy, state.last, state.last_count);
  }

  const TracedProcess& process_;
  const ScanOrder& order_;
};

}  // namespace

LostScanResult scan_for_lost(const TracedProcess& process, const ScanOrder& order) {
  return LostScanning(process, order).run();
}

}  // namespace culprit::report
