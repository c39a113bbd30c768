#include "report/metrics/process_sample.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "report/base/printable.h"
#include "report/base/text_width.h"
#include "report/cuda/kinds.h"
#include "report/judge/balances.h"
#include "report/model/causes.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kLongestLabel = 200;  // bytes
constexpr char kOther[] = "other";

// Cut before it is checked: cutting through a character leaves bytes that printable() replaces.
std::string label_text(std::string_view text) {
  return std::string(cut_to_bytes(printable(text.substr(0, 2 * kLongestLabel)), kLongestLabel));
}

bool is_memory(const Group& group) {
  const KindClass kind = kind_class(group.kind);
  return kind == KindClass::kDeviceMemory || kind == KindClass::kHostMemory;
}

// Sums by device, kind and cause; those beyond the limit are one.
class MemorySums {
 public:
  explicit MemorySums(std::size_t limit) : limit_(limit) {}

  void add(const Group& group, const char* cause) {
    Key key(group.device ? std::to_string(*group.device) : "host", kind_name(group.kind), cause);
    if (sums_.size() >= limit_ && sums_.count(key) == 0) key = {kOther, kOther, cause[0] == '\0' ? "" : kOther};
    auto& [bytes, count] = sums_[key];
    bytes += group.bytes;
    count += group.count;
  }

  std::vector<MemorySum> list() const {
    std::vector<MemorySum> result;
    result.reserve(sums_.size());
    for (const auto& [key, sum] : sums_)
      result.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), sum.first, sum.second});
    return result;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  const std::size_t limit_;
  std::map<Key, std::pair<std::uint64_t, std::uint64_t>> sums_;
};

// The memory of each id. Several groups may have the same one: of other devices or kinds, or with other causes.
std::vector<StackSum> stack_sums(const Report& report, std::size_t limit) {
  struct Sum {
    std::uint64_t bytes = 0;
    std::uint64_t count = 0;
    const Group* largest = nullptr;
  };
  std::map<std::string, Sum> sums;
  for (const std::vector<Group>* groups : {&report.leaks, &report.library}) {
    for (const Group& group : *groups) {
      if (!is_memory(group)) continue;
      Sum& sum = sums[group.id];
      sum.bytes += group.bytes;
      sum.count += group.count;
      if (sum.largest == nullptr || group.bytes > sum.largest->bytes) sum.largest = &group;
    }
  }
  std::vector<std::pair<std::string, Sum>> ordered(sums.begin(), sums.end());
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  std::vector<StackSum> result;
  StackSum other;
  other.id = kOther;
  other.function = kOther;
  for (const auto& [id, sum] : ordered) {
    if (result.size() >= limit) {
      other.bytes += sum.bytes;
      other.count += sum.count;
      continue;
    }
    StackSum one;
    one.id = id;
    one.bytes = sum.bytes;
    one.count = sum.count;
    if (const Frame* frame = sum.largest->stack == nullptr ? nullptr : naming_frame(*sum.largest->stack)) {
      name_by(*frame, &one.function, &one.place);
    }
    result.push_back(std::move(one));
  }
  result.push_back(std::move(other));
  return result;
}

// Devices of a dump, without those that it names twice.
std::vector<const DeviceInfo*> devices_of(const Report& report, std::size_t limit) {
  std::map<unsigned, const DeviceInfo*> devices;
  for (const DeviceInfo& device : report.devices) {
    if (devices.size() < limit) devices.emplace(device.ordinal, &device);
  }
  std::vector<const DeviceInfo*> result;
  result.reserve(devices.size());
  for (const auto& [ordinal, device] : devices) result.push_back(device);
  return result;
}

}  // namespace

void name_by(const Frame& frame, std::string* function, std::string* place) {
  *function = label_text(frame_function(frame));
  *place = label_text(frame_place(frame));
}

ProcessSample sample_of(const Report& report, const GpuUsers& users, const SampleLimits& limits) {
  ProcessSample sample;
  sample.pid = report.process.pid;
  sample.readable = true;
  sample.executable = label_text(base_name(report.process.executable));
  sample.host = label_text(report.process.host);
  if (report.process.rank) sample.rank = std::to_string(*report.process.rank);
  sample.version = label_text(report.process.tool_version);
  sample.start_ns = report.process.start_realtime_ns;
  sample.running = report.process.status.ended == Ended::kRunning;
  sample.recording = sample.running && !report.recording.off;
  sample.allocations = report.summary.allocations;
  sample.frees = report.summary.frees;
  sample.failed_allocations = report.summary.failed_allocations;
  sample.not_recorded = report.dropped.total();
  MemorySums live(limits.series);
  MemorySums cached(limits.series);
  for (const std::vector<Group>* groups : {&report.leaks, &report.library}) {
    for (const Group& group : *groups) {
      if (!is_memory(group)) continue;
      if (row_of(group.cause).while_running == WhileRunning::kKept) {
        cached.add(group, "");
      } else {
        live.add(group, cause_name(group.cause));
      }
    }
  }
  sample.live = live.list();
  sample.cached = cached.list();
  sample.stacks = stack_sums(report, limits.stacks);
  for (const DeviceInfo* info : devices_of(report, limits.series)) {
    SampledDevice device;
    device.device = std::to_string(info->ordinal);
    device.uuid = label_text(info->uuid);
    device.name = label_text(info->name);
    if (sample.running) device.charged = charge_of(users, info->uuid, sample.pid).bytes;
    if (const std::optional<Balance> balance = balance_now(report, info->ordinal, device.charged)) {
      std::map<BalancePart, std::int64_t> sums;
      for (const BalanceItem& item : balance->items) sums[item.what] += item.bytes;
      for (const auto& [part, bytes] : sums) sample.parts.push_back({device.device, balance_name(part), bytes});
    }
    sample.devices.push_back(std::move(device));
  }
  return sample;
}

}  // namespace culprit::report
