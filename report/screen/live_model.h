// What `culprit top` shows, without a terminal: the rows of all processes with their changes and rates, the devices
// with their histories. Everything here is a function of the looks that were added.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/screen/live_process.h"

namespace culprit::report {

enum class LiveSort { kLive, kSinceStart, kSinceMark, kRate, kCount, kOldest };
inline constexpr LiveSort kLastLiveSort = LiveSort::kOldest;
const char* live_sort_name(LiveSort sort);

// A row of one process.
struct LiveRow {
  const LiveProcess* process = nullptr;
  const GroupedRow* row = nullptr;
  std::string key;                         // tells rows of all processes apart
  std::int64_t since_start = 0;            // change of the live bytes since the first look at the process
  std::optional<std::int64_t> since_mark;  // empty: no mark was set
  std::optional<double> per_minute;        // bytes; empty: too few looks
  std::optional<double> oldest_seconds;    // age of the oldest allocation; empty: not known
};

// A device, summed up over the processes.
struct LiveDeviceSum {
  std::string uuid;
  std::string title;
  std::string name;
  std::uint64_t total = 0;  // 0: not known
  std::uint64_t live = 0;
  std::optional<std::uint64_t> in_use;  // by all processes of the machine; empty: not known
  std::map<BalancePart, std::int64_t> parts;
  std::optional<double> per_minute;  // of `live`
  std::vector<double> history;       // of `live`, oldest first
  // The parts as one: what is allocated, what caches keep, what the driver took (and the rest), what others have.
  std::uint64_t allocated() const;
  std::uint64_t cached() const;
  std::uint64_t driver() const;
  std::uint64_t others() const;
};

struct LiveChoice {
  std::string by = "stack";
  LiveSort sort = LiveSort::kLive;
  bool reversed = false;
  std::string filter;  // rows that contain these words, in any case; "": all
  std::string only;    // LiveProcess::key; "": all processes
};

// Not thread-safe.
class LiveModel {
 public:
  // Looks that rates are made of, and that sparklines have.
  static constexpr std::size_t kLooksOfRate = 30;
  static constexpr std::size_t kLooksOfHistory = 512;

  // `look.seconds` must be later than that of the last one.
  void add(LiveLook look);

  // From now on LiveRow::since_mark counts. Nothing happens before the first look.
  void set_mark();
  std::optional<double> seconds_since_mark() const;

  bool has_look() const { return looks_ != 0; }
  const LiveLook& look() const { return look_; }
  double seconds() const { return times_.empty() ? 0 : times_.back() - first_seconds_; }

  // The rows that are chosen, in their order. Valid until the next look is added.
  std::vector<LiveRow> rows(const LiveChoice& choice) const;
  std::vector<LiveDeviceSum> devices(const std::string& only = "") const;

  // Calls a second of the shown processes; empty before the second look.
  std::optional<double> allocations_per_second(const std::string& only = "") const;
  std::optional<double> frees_per_second(const std::string& only = "") const;

  // GPU memory of processes that record nothing, by NVML, most first; without those of `look().processes`.
  std::vector<LiveProcess> not_recorded() const;

 private:
  // The live bytes of something.
  struct Track {
    double first = 0;
    double mark = 0;
    std::deque<double> values;  // of the newest looks
    std::uint64_t look = 0;     // the last one in which it was seen
  };
  struct Known {
    std::uint64_t first_look = 0;
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
    std::optional<double> allocation_rate;
    std::optional<double> free_rate;
    std::uint64_t look = 0;
    double seconds = 0;  // of that look
  };

  void add_value(Track* track, double value, std::size_t before, std::size_t most);
  void add_process(const LiveProcess& process);
  std::optional<double> rate_of(const Track& track) const;
  std::optional<double> sum_of(std::optional<double> Known::*rate, const std::string& only) const;

  LiveLook look_;
  std::uint64_t looks_ = 0;
  double first_seconds_ = 0;
  std::deque<double> times_;  // of the newest kLooksOfRate looks
  std::optional<double> mark_seconds_;
  std::unordered_map<std::string, Track> rows_;  // by process, grouping and key
  std::map<std::string, Track> devices_;         // by process (or all) and uuid
  std::map<std::string, Known> processes_;
};

}  // namespace culprit::report
