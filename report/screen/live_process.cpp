#include "report/screen/live_process.h"

#include <algorithm>
#include <utility>

#include "report/base/clock.h"
#include "report/base/printable.h"
#include "report/cuda/kinds.h"
#include "report/judge/balances.h"
#include "report/model/frames.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

std::uint64_t age_of(const Report& report) {
  if (report.snapshot_ns != 0) return report.snapshot_ns;
  if (report.process.status.ended != Ended::kRunning) return report.process.end_time_ns;
  const std::uint64_t ns = realtime_ns();
  return ns > report.process.start_realtime_ns ? ns - report.process.start_realtime_ns : 0;
}

LiveState state_of(const Report& report) {
  if (report.snapshot_ns != 0) return LiveState::kSnapshot;
  if (report.process.status.ended != Ended::kRunning) return LiveState::kEnded;
  return report.recording.off ? LiveState::kOff : LiveState::kRecording;
}

std::string end_words(const ProcessStatus& status) {
  if (status.ended == Ended::kExit) return "ended with exit code " + std::to_string(status.exit_status);
  if (status.ended == Ended::kKilled)
    return status.signal != 0 ? "was ended by signal " + std::to_string(status.signal) : "was killed";
  if (status.detached) return "was detached, and records nothing";
  return status.note.empty() ? "how it ended is not known" : printable(status.note);
}

// The ordinals of one process; another one may have other numbers for the same devices.
std::vector<LiveDevice> devices_of(const Report& report, const GpuUsers& users) {
  std::map<unsigned, LiveDevice> devices;
  for (const DeviceInfo& info : report.devices) {
    LiveDevice& device = devices[info.ordinal];
    device.uuid = printable(info.uuid);
    device.name = printable(info.name);
    device.total = std::max({info.first.total_bytes, info.peak.total_bytes, device.total});
    const DeviceUsers* const known = users.of(info.uuid);
    device.title = known != nullptr ? known->title : "GPU " + std::to_string(info.ordinal);
    const bool running = report.process.status.ended == Ended::kRunning && report.snapshot_ns == 0;
    if (running) device.charged = charge_of(users, info.uuid, report.process.pid).bytes;
    if (const std::optional<Balance> balance = balance_now(report, info.ordinal, device.charged)) {
      for (const BalanceItem& item : balance->items) device.parts[item.what] += item.bytes;
    }
  }
  for (const Group& group : report.leaks) {
    const auto device = group.device ? devices.find(*group.device) : devices.end();
    if (device != devices.end() && kind_class(group.kind) == KindClass::kDeviceMemory)
      device->second.live += group.bytes;
  }
  std::vector<LiveDevice> list;
  list.reserve(devices.size());
  for (auto& [ordinal, device] : devices) list.push_back(std::move(device));
  return list;
}

}  // namespace

const std::vector<std::string>& live_groupings() {
  static const std::vector<std::string> groupings = {"stack",  "line",   "function", "library",
                                                     "thread", "device", "cause",    "mark"};
  return groupings;
}

const char* live_state_name(LiveState state) {
  switch (state) {
    case LiveState::kRecording:
      return "recording";
    case LiveState::kOff:
      return "off";
    case LiveState::kEnded:
      return "ended";
    case LiveState::kSnapshot:
      return "snapshot";
    case LiveState::kNothingYet:
      return "nothing-yet";
    case LiveState::kNotRecorded:
      return "not-recorded";
    case LiveState::kUnreadable:
      break;
  }
  return "unreadable";
}

LiveProcess live_process_of(std::shared_ptr<const Report> report, const GpuUsers& users) {
  LiveProcess process;
  const ProcessInfo& info = report->process;
  process.pid = info.pid;
  process.key = std::to_string(info.pid) + " " + std::to_string(info.start_realtime_ns);
  process.name = printable(base_name(info.executable));
  for (const std::string& word : info.command)
    process.command += (process.command.empty() ? "" : " ") + printable(word);
  process.state = state_of(*report);
  if (process.state == LiveState::kEnded) process.note = end_words(info.status);
  if (process.state == LiveState::kOff)
    process.note = "recording is off: new allocations are not seen until culprit start";
  process.now_ns = age_of(*report);
  process.allocations = report->summary.allocations;
  process.frees = report->summary.frees;
  process.not_known = reasons_not_known(*report);
  process.devices = devices_of(*report, users);
  for (const LiveDevice& device : process.devices) {
    if (device.charged) process.charged = process.charged.value_or(0) + *device.charged;
  }
  for (const std::string& by : live_groupings()) {
    std::vector<GroupedRow>& rows = process.rows[by];
    rows = grouped_rows(*report, by, true);
    if (by == "stack") {
      for (const GroupedRow& row : rows) process.live += row.total.bytes;
    }
    if (rows.size() <= kMostLiveRows) continue;
    process.left_out = std::max<std::uint64_t>(process.left_out, rows.size() - kMostLiveRows);
    rows.resize(kMostLiveRows);
  }
  process.report = std::move(report);
  return process;
}

}  // namespace culprit::report
