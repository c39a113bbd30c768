// The rows of a running process, from its dump: one for each stack and kind of memory or object, as `culprit report`
// groups them, one for each stack and purpose for which the driver took memory by itself, two for the idle memory in
// announced heaps, three for the inside of PyTorch's cache, and one for each device with the memory that no call
// explains.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/model/cache_bytes.h"
#include "report/model/frames.h"
#include "report/symbols/symbolizer.h"
#include "report/watch/history.h"
#include "report/watch/verdict.h"

namespace culprit::report {

class Dump;

// Kinds of rows of PyTorch's cache.
inline constexpr char kCacheLive[] = "cache-live";
inline constexpr char kCacheIdle[] = "cache-idle";
inline constexpr char kCacheScattered[] = "cache-scattered";

struct WatchedRow {
  std::string id;    // of the group in `culprit report`; of the driver's memory an id of its own
  std::string kind;  // "device", "stream", ...; of the driver's memory "driver-graph-executables", ..., "driver-rest";
                     // of the inside of heaps "heap-idle", "heap-scattered"; of PyTorch's cache "cache-live",
                     // "cache-idle", "cache-scattered"
  bool objects = false;            // counted; else bytes are summed up
  std::string api;                 // "" of the memory that no call explains, and of PyTorch's cache
  std::optional<unsigned> device;  // of the first of its allocations
  std::string pool;                // the name of the caching allocator whose segments they are; "": none
  ResolvedStack stack;

  // Of PyTorch's counts: without a stack, and inside of segments that have rows of their own.
  bool is_of_cache() const { return kind == kCacheLive || kind == kCacheIdle || kind == kCacheScattered; }
};

// What NVML says about one device.
struct DeviceAnswer {
  std::optional<std::uint64_t> in_use;  // by all processes
  std::optional<std::uint64_t> own;     // by this one
};

struct JudgedRow {
  const WatchedRow* row = nullptr;
  RowJudgement judgement;
  double live = 0;         // bytes, or objects
  std::uint64_t made = 0;  // calls with this stack so far; 0: not known
  std::optional<double> seconds_until_full;
  bool at_most = false;  // the time: the memory of other processes is not known
};

// By verdict, and by rate.
bool is_before(const JudgedRow& left, const JudgedRow& right);

// Not thread-safe.
class WatchedProcess {
 public:
  // A row takes some 16 KiB.
  static constexpr std::size_t kMostRows = 4096;

  // `full_stacks`: with the frames that are hidden otherwise.
  explicit WatchedProcess(SymbolLookup lookup, bool full_stacks = false)
      : lookup_(std::move(lookup)), full_stacks_(full_stacks) {}

  enum class Look {
    kSampled,
    kOff,    // recording is off: the time does not count
    kEnded,  // the process ends, or was detached
  };
  // `now_ns`: on the dump's clock. `answers`: new ones since the last sample, by UUID; empty: none. `caches`: of this
  // moment; a device that is missing is as it was. Throws DumpError.
  Look sample(const Dump& dump, std::uint64_t now_ns, const std::map<std::string, DeviceAnswer>& answers,
              const std::vector<CacheBytes>& caches = {});

  // Later rows are left out, and counted; without this call there is room for 4,096.
  void limit_rows(std::size_t most) { most_rows_ = std::min(most, kMostRows); }

  // In the order of is_before(). Valid until the next sample.
  std::vector<JudgedRow> judge(double least_per_minute) const;

  const History& history() const { return history_; }
  double seconds() const;
  std::uint64_t left_out() const { return left_out_; }  // stacks for which there was no room
  std::uint32_t pid() const { return pid_; }
  const std::string& host() const { return host_; }
  const std::vector<std::string>& command() const { return command_; }
  // Why it is not known whether all was seen: sentences, of the last sample.
  const std::vector<std::string>& gaps() const { return gaps_; }

 private:
  struct OwnedStack;
  struct Sum;
  // Bytes of announced heaps.
  enum class Inside : std::uint8_t {
    kNone,
    kIdle,       // in no region
    kScattered,  // the idle bytes outside of each heap's largest hole: no larger region finds room there
  };
  struct Device {
    std::uint64_t total = 0;
    std::uint64_t live = 0;
    std::optional<std::uint64_t> in_use;
  };
  using Sums = std::vector<Sum>;

  void read_process(const Dump& dump);
  void read_devices(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers);
  double seconds_of(std::uint64_t ns) const;
  template <typename Record>
  static Sum new_sum(const Record& record);
  Sums sums_of(const Dump& dump, const BirthScale& scale) const;
  void add_contexts(const Dump& dump, const BirthScale& scale, Sums* sums) const;
  void add_charges(const Dump& dump, Sums* sums) const;
  void add_insides(const Dump& dump, Sums* sums) const;
  static std::string kind_of_no_allocation(const Sum& sum);
  void find_rows(const Dump& dump, Sums* sums);
  std::optional<std::size_t> row_of(WatchedRow row);
  void add_unexplained(const Dump& dump, const std::map<std::string, DeviceAnswer>& answers);
  void add_caches(const std::vector<CacheBytes>& caches);
  std::optional<std::size_t> row_of_device(const char* kind, unsigned device);
  void set(std::size_t row, RowSample sample);

  const SymbolLookup lookup_;
  const bool full_stacks_;
  History history_;
  std::vector<std::unique_ptr<WatchedRow>> rows_;  // as in the history
  std::vector<std::shared_ptr<OwnedStack>> stacks_;
  std::unordered_map<std::string, std::size_t> row_by_id_;
  std::unordered_map<std::uint64_t, std::optional<std::size_t>> row_by_stack_;  // by a hash of frames and kind
  std::vector<RowSample> next_;
  struct Pause {
    std::uint64_t begin_ns;
    std::uint64_t end_ns;
  };
  std::vector<Pause> pauses_;  // of recording
  std::map<unsigned, Device> devices_;
  std::map<std::size_t, double> without_stacks_;  // by row, of the last answer of NVML or PyTorch
  std::size_t most_rows_ = kMostRows;
  std::uint64_t left_out_ = 0;
  std::uint32_t pid_ = 0;
  std::string host_;
  std::vector<std::string> command_;
  std::vector<std::string> gaps_;
};

}  // namespace culprit::report
