#include "report/load/read_facts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "report/base/words.h"
#include "report/dump/dump_reader.h"
#include "report/dump/process_status.h"
#include "report/model/marks.h"
#include "report/model/record_facts.h"
#include "report/model/report.h"

namespace culprit::report {

using namespace format;

namespace {

// The dump is opened again by its name to grow where no descriptor of it could be kept, or the program closed that.
std::string file_replaced_text(int error) {
  if (error == EACCES || error == EPERM)
    return "the dump could not be opened again to grow, because the program had changed its user or its rights";
  if (error == ENOENT || error == ENOTDIR)
    return "the dump was not found again to grow: it was deleted, or the program had changed its root directory";
  return "the dump could not be opened again to grow";
}

std::string stop_reason_text(const Header& header) {
  const std::string why = header.stop_errno > 0 ? std::string(" (") + std::strerror(header.stop_errno) + ")" : "";
  switch (header.stop_reason) {
    case StopReason::kNone:
      if (header.limited_types == 0) return {};
      return "the dump reached CULPRIT_MAX_DUMP (" + format_bytes(header.size_limit) +
             "): later events are recorded only in the space of old ones; raise it to see everything";
    case StopReason::kNoSpace:
      return "the dump could not grow" + why + ": make room, or point CULPRIT_OUT to a file system with more";
    case StopReason::kFileSizeLimit:
      return "the process's file size limit was reached: raise it (ulimit -f unlimited) and run again";
    case StopReason::kTooLarge:
      return "the dump reached the largest size that it can have";
    case StopReason::kFileReplaced:
      return file_replaced_text(header.stop_errno) + why;
    case StopReason::kNoMemory:
      return "no memory was left for the index of allocations" + why;
    case StopReason::kNoAddresses:
      return "the program's address space is limited, and the dump had its share of it: raise the limit (ulimit -v)";
    case StopReason::kTruncated:
      return "the dump was truncated while the program ran, or its file system failed: its content is lost";
    case StopReason::kNoDescriptor:
      return "no descriptor was free when the dump had to grow: raise the limit (ulimit -n) and run again";
  }
  return "recording stopped for a reason that only a newer culprit knows";
}

ProcessInfo process_info(const Dump& dump, const MachineFacts& machine) {
  const Header& header = dump.header();
  ProcessInfo process;
  process.pid = header.pid;
  process.parent_pid = header.parent_pid;
  process.host.assign(header.host, ::strnlen(header.host, sizeof(header.host)));
  if (header.rank != 0) process.rank = header.rank - 1;
  process.job_size = header.job_size;
  process.executable = dump.string(header.executable);
  process.working_directory = dump.string(header.working_directory);
  process.tool_version = dump.string(header.tool_version);
  process.start_realtime_ns = header.start_realtime_ns;
  process.end_time_ns = header.process_state == ProcessState::kRunning ? 0 : header.end_time_ns;
  process.driver_version = header.driver_version;
  process.status = process_status(dump, machine);
  process.of_this_machine = is_surely_of_this_machine(dump, machine);
  if (header.attached == Attached::kRedirect) process.attached = "redirect";
  process.attach_unsearched_bytes = header.attach_unsearched_bytes;
  if (header.attached == Attached::kCupti) process.attached = "cupti";

  std::string_view rest = dump.string(header.command_line);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    process.command.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return process;
}

std::vector<UnseenUser> unseen_users(const Dump& dump) {
  std::vector<UnseenUser> users;
  std::string_view rest = dump.string(dump.header().unseen_users);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    users.push_back({std::string(rest.substr(1, end == 0 ? 0 : end - 1)),
                     rest[0] == static_cast<char>(format::UnseenHow::kNamespace),
                     rest[0] == static_cast<char>(format::UnseenHow::kDriver)});
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return users;
}

DeviceInfo device_info(const DeviceRecord& record) {
  DeviceInfo device;
  device.ordinal = record.ordinal;
  device.uuid = uuid_text(record);
  device.name.assign(record.name, ::strnlen(record.name, sizeof(record.name)));
  device.mig = (record.flags & kDeviceMig) != 0;
  device.first = record.first;
  device.peak = record.peak;
  device.exit = record.exit;
  device.live_bytes = record.live_bytes;
  device.peak_live_bytes = record.peak_live_bytes;
  device.pool_known = (record.flags & kDevicePoolRead) != 0;
  device.pool_reserved = record.pool_reserved;
  device.pool_used = record.pool_used;
  device.made_stretches = record.made_stretches;
  device.launch_stretches = record.launch_stretches;
  device.last_made = record.last_made;
  return device;
}

RecordingInfo recording_info(const Dump& dump) {
  const Header& header = dump.header();
  RecordingInfo info;
  info.off = header.recording_state == RecordingState::kOff;
  info.last_switch_ns = header.last_switch_ns;
  info.process_age_ns = header.process_age_ns;
  for (const SpanRecord& record : dump.spans()) {
    RecordedSpan span;
    span.begin_ns = record.begin_ns;
    span.end_ns = record.end_ns;
    if (record.total_bytes != 0) span.device = device_of(record.device);
    span.read_at_begin = (record.flags & kSpanReadAtBegin) != 0;
    span.used_bytes = record.used_bytes;
    span.total_bytes = record.total_bytes;
    info.spans.push_back(span);
  }
  return info;
}

void add_time_lines(const Dump& dump, Report* report) {
  for (const TimeLineRecord& line : dump.time_lines()) {
    for (DeviceInfo& device : report->devices) {
      if (device.ordinal != line.device) continue;
      device.time_line.bucket_ns = line.bucket_ns;
      device.time_line.buckets.assign(line.buckets, line.buckets + line.used);
      device.time_line.peak_bytes = line.peak_bytes;
      device.time_line.peak_ns = line.peak_ns;
    }
  }
}

}  // namespace

Report read_facts(const Dump& dump, const MachineFacts& machine) {
  const Header& header = dump.header();
  Report report;
  report.dump_path = dump.path();
  report.process = process_info(dump, machine);
  for (const DeviceRecord& device : dump.devices()) report.devices.push_back(device_info(device));
  add_time_lines(dump, &report);
  report.hook_called = header.hook_calls != 0;
  report.unseen = unseen_users(dump);
  std::sort(report.devices.begin(), report.devices.end(),
            [](const DeviceInfo& left, const DeviceInfo& right) { return left.ordinal < right.ordinal; });
#define COUNTER_SUMMARY(name) report.summary.name = header.name;
#define COUNTER_DROPPED(name, field, ...) report.dropped.field = header.name;
#define COUNTER_DETAIL(name) report.dropped.name = header.name;
#define COUNTER_REPORT(name) report.name = header.name;
#include "interpose/format/counters.def"
  report.dropped.reason = stop_reason_text(header);
  report.dropped.stop_time_ns = header.stop_time_ns;
  report.holder_search = {header.holder_search, header.holder_search_ns + header.lost_search_ns,
                          header.holder_search_bytes + header.lost_search_bytes, header.heap_search,
                          header.lost_search};
  report.recording = recording_info(dump);
  const bool switched = !report.recording.spans.empty() || report.recording.off;
  report.partly_recorded = switched && header.attached == Attached::kNo ? 1 : 0;
  report.snapshot_ns = header.snapshot_ns;
  report.marks = read_marks(dump);
  if (dump.left_out_bytes() != 0)
    report.notes.push_back("a newer libculprit.so wrote " + format_bytes(dump.left_out_bytes()) +
                           " of this dump in a way that this culprit does not read: the verdict stands without them");
  return report;
}

}  // namespace culprit::report
