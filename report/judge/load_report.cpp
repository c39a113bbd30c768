#include "report/judge/load_report.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "interpose/format/python_versions.h"
#include "report/base/progress.h"
#include "report/base/words.h"
#include "report/judge/pictures.h"
#include "report/judge/python_view.h"
#include "report/model/marks.h"
#include "report/model/record_facts.h"

namespace culprit::report {

using namespace format;

namespace {

std::string stop_reason_text(const Header& header) {
  const std::string why = header.stop_errno > 0 ? std::string(" (") + std::strerror(header.stop_errno) + ")" : "";
  switch (header.stop_reason) {
    case StopReason::kNone:
      if (header.limited_types == 0) return {};
      return "the dump reached CULPRIT_MAX_DUMP (" + format_bytes(header.size_limit) +
             "): what came later is recorded only where something old went; raise it to see everything";
    case StopReason::kNoSpace:
      return "the dump could not grow" + why + ": make room, or point CULPRIT_OUT to a file system with more";
    case StopReason::kFileSizeLimit:
      return "the process's file size limit was reached: raise it (ulimit -f unlimited) and run again";
    case StopReason::kTooLarge:
      return "the dump reached the largest size that it can have";
    case StopReason::kFileReplaced:
      return "the program closed the dump's descriptor and the file could not be opened again" + why;
    case StopReason::kNoMemory:
      return "no memory was left for the index of allocations" + why;
    case StopReason::kNoAddresses:
      return "the program's address space is limited, and the dump had its share of it: raise the limit (ulimit -v)";
    case StopReason::kTruncated:
      return "somebody made the dump shorter while the program ran, or its file system failed: what it held is lost";
    case StopReason::kNoDescriptor:
      return "no descriptor was free when the dump had to grow: raise the limit (ulimit -n) and run again";
  }
  return "recording stopped for a reason that this version does not know";
}

std::string uuid_text(const DeviceRecord& device) {
  static const char kDigits[] = "0123456789abcdef";
  std::string text = (device.flags & kDeviceMig) != 0 ? "MIG-" : "GPU-";
  for (std::size_t i = 0; i < sizeof(device.uuid); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += kDigits[device.uuid[i] >> 4];
    text += kDigits[device.uuid[i] & 15];
  }
  return text;
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
  if (header.attached == Attached::kRedirect) process.attached = "redirect";
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
                     rest[0] == static_cast<char>(format::UnseenHow::kNamespace)});
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
  device.pool_reserved = record.pool_reserved;
  device.pool_used = record.pool_used;
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

// Adds a note that memory may have been lost to exceptions in modules whose exceptions are not recorded.
void add_unseen_throws(Report* report) {
  std::set<std::string> told;
  for (const Group& group : report->leaks) {
    if (group.cause != Cause::kNeverFreed && group.cause != Cause::kContextTeardown) continue;
    for (const Frame* frame : group.stack->frames) {
      if (frame->module == nullptr || !frame->module->own_unwinder || is_system_code(*frame)) continue;
      if (!told.insert(frame->module->path).second) continue;
      report->notes.push_back("exceptions that " + frame->module->name +
                              " throws could not be observed, because it has a C++ runtime of its own inside: link it "
                              "without -static-libgcc to see which of its leaks an exception left behind");
    }
  }
}

std::string python_note(const Header& header) {
  const std::uint32_t version = header.python_version;
  const std::string name = version == 0
                               ? "this Python"
                               : "Python " + std::to_string(version >> 24) + "." + std::to_string(version >> 16 & 0xff);
  switch (header.python_state) {
    case PythonState::kUnknownVersion:
      if (reads_python(version))
        return "no Python lines: culprit reads the frames of usual builds; this " + name +
               " has no GIL, or is another one";
      return std::string("no Python lines: culprit reads the frames of Python ") + kPythonVersions + ", not of " + name;
    case PythonState::kDiffers:
      return "no Python lines: the interpreter does not keep its frames where a usual build of " + name + " does";
    case PythonState::kNoPython:
    case PythonState::kNotChecked:
    case PythonState::kRead:
      break;
  }
  return {};
}

// A note on the facts that are not known because recording began with an attach.
std::string attach_note(const Header& header) {
  if (header.attached == Attached::kNo) return {};
  const bool throws = (header.attach_flags & kAttachSeesThrows) != 0;
  return std::string("attached while the process ran: ") +
         (throws ? "NVTX ranges are not seen" : "exceptions and NVTX ranges are not seen with this back end");
}

void add_notes(const Header& header, const StackResolver& stacks, Report* report) {
  std::vector<std::string>& notes = report->notes;
  if (!report->process.status.note.empty()) notes.push_back(report->process.status.note);
  if (!report->hook_called) {
    notes.push_back(
        "a CUDA library was loaded but no hook of libculprit.so was ever called: nothing could be recorded");
  }
  const std::string python = python_note(header);
  if (!python.empty()) notes.push_back(python);
  const std::string attached = attach_note(header);
  if (!attached.empty()) notes.push_back(attached);
  for (const std::string& note : stacks.notes()) notes.push_back(note);
  if (report->holder_search.state == HolderSearch::kStopped) {
    notes.push_back(
        "the search for globals that hold what was not freed was given up: memory may be held although it is not said");
  }
  if (report->dropped_marks != 0) {
    notes.push_back(std::to_string(report->dropped_marks) +
                    " times a mark or an NVTX range found no room: give fewer different names");
  }
  if (report->dropped.reused_stacks != 0) {
    notes.push_back(plural(report->dropped.reused_stacks, "stack", "stacks") + " with " +
                    plural(report->dropped.reused_calls, "call", "calls") +
                    " had nothing left and made room for new ones: what came back counts its calls from then on");
  }
  if (!report->since_mark.empty() && !report->since_mark_ns)
    notes.push_back("this process has no mark \"" + report->since_mark + "\": nothing came after it");
  add_unseen_throws(report);
  const bool truncated = std::any_of(report->leaks.begin(), report->leaks.end(),
                                     [](const Group& group) { return group.stack->truncated && !group.stack->merged; });
  if (truncated) notes.push_back("some stacks are deeper than was recorded: raise CULPRIT_DEPTH (culprit run --depth)");
}

}  // namespace

Report load_report(const std::string& path, const LoadOptions& options) {
  const Dump dump = Dump::open(path);
  return load_report(dump, options);
}

Report load_report(const Dump& dump, const LoadOptions& options) {
  const Header& header = dump.header();
  Report report;
  report.dump_path = dump.path();
  report.process = process_info(dump, options.machine);
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
  report.holder_search = {header.holder_search, header.holder_search_ns, header.holder_search_bytes};
  report.recording = recording_info(dump);

  report.snapshot_ns = header.snapshot_ns;
  report.marks = read_marks(dump);
  report.since_mark = options.since_mark;
  if (!options.since_mark.empty()) report.since_mark_ns = time_of_mark(report.marks, options.since_mark);
  const bool unmarked = !options.since_mark.empty() && !report.since_mark_ns;

  Tables tables = read_tables(dump, unmarked ? ~0ULL : report.since_mark_ns.value_or(0));
  SymbolLookup lookup = options.lookup;
  if (!lookup) lookup = [&](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, options.symbols); };
  auto stacks = std::make_shared<StackResolver>(dump, lookup, options.full_stacks);
  const std::vector<SiteRecord> sites = dump.sites();
  std::vector<Ref> wanted = stacks_of(tables, dump);
  for (const SiteRecord& site : sites) wanted.push_back(site.stack);
  if (header.exit_stack != 0) wanted.push_back(header.exit_stack);
  const std::vector<PictureRecord> pictures = dump.pictures();
  for (const Ref stack : stacks_of_pictures(pictures)) wanted.push_back(stack);
  stacks->resolve(wanted, places_of(tables));
  for (const SiteRecord& site : sites) {
    const ResolvedStack& stack = stacks->stack(site.stack);
    report.sites.push_back({site.site, site.number, site.calls, api_of(dump, site.api, stack), &stack});
  }
  report.pictures = read_pictures(pictures, dump, *stacks);
  if (header.exit_stack != 0) report.exit_stack = &stacks->stack(header.exit_stack);
  auto python_holders = std::make_shared<std::deque<Variable>>();
  std::string view_problem;
  const std::optional<PythonView> view = read_python_view(dump.path(), &view_problem);
  if (!view_problem.empty()) report.notes.push_back(view_problem);
  for (Held& held : tables.held) held.variable = stacks->variable(held.place);
  if (view) {
    add_python_holders(*view, dump, &tables, python_holders.get());
    report.caches_inside = look_inside_caches(*view, dump, tables.since_ns);
  }
  report.python_holders = python_holders;
  group_by_holder(dump, &tables);
  judge(tables, dump, *stacks, options.judge, &report);
  report.stacks = stacks;
  add_notes(header, *stacks, &report);
  return report;
}

Report load_with_progress(const std::string& path, LoadOptions options) {
  Progress progress;
  options.symbols.progress = [&progress](const std::string& module) { progress.doing("reading symbols of " + module); };
  return load_report(path, options);
}

}  // namespace culprit::report
