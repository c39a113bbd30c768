#include "report/render/render_perfetto.h"

#include <algorithm>
#include <optional>

#include "report/base/printable_stream.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/findings/finding.h"
#include "report/model/frame_text.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/render/perfetto_trace.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Of one process: each has a track. The user interface stays quick.
constexpr std::size_t kMostSlices = 1000;

constexpr std::uint64_t kLatest = 1ULL << 62;  // far from the end of signed numbers

std::string name_of_stack(const ResolvedStack* stack) {
  const Frame* const frame = stack == nullptr ? nullptr : naming_frame(*stack);
  return frame == nullptr ? "(stack not recorded)" : frame_text(*frame);
}

void add_stack_arg(const std::string& name, const ResolvedStack* stack, PerfettoArgs* args) {
  if (stack == nullptr || stack->frames.empty()) return;
  std::vector<std::string> lines;
  for (const Frame* frame : stack->frames) lines.push_back(frame_text(*frame));
  args->add(name, lines);
}

std::string gpu_name(const std::optional<unsigned>& device) {
  return device ? "GPU " + std::to_string(*device) : "no GPU";
}

std::string process_name(const std::optional<unsigned>& rank, const std::string& program, std::uint32_t pid,
                         const std::string& host) {
  return (rank ? "rank " + std::to_string(*rank) + ": " : "") + (program.empty() ? "" : program + " ") + "[" +
         std::to_string(pid) + "] on " + host;
}

// One process, or all processes of a merged report together.
class ProcessTracks {
 public:
  ProcessTracks(PerfettoTrace* trace, std::uint64_t track, std::uint64_t start_ns)
      : trace_(*trace), track_(track), start_ns_(start_ns < kLatest ? start_ns : 0), last_ns_(start_ns_) {}

  void add_devices(const Report& report) {
    for (const DeviceInfo& device : report.devices) {
      const std::string name = "GPU " + std::to_string(device.ordinal);
      add_time_line(name, device.time_line, report.process.end_time_ns);
      add_readings(name, device, report.breakdowns);
    }
  }

  // `share` of the group's bytes and allocations: those of this process.
  void add_group(const Group& group, const char* track, const Share& share) {
    PerfettoArgs args;
    args.add("bytes", share.bytes);
    args.add("count", share.count);
    args.add("cause", cause_name(group.cause));
    args.add("id", group.id);
    args.add("kind", kind_name(group.kind));
    args.add("api", group.api);
    args.add("device", kind_class(group.kind) == KindClass::kHostMemory ? "host" : gpu_name(group.device));
    if (group.made != 0) args.add("made", group.made);
    if (group.freed != 0) args.add("freed", group.freed);
    if (!group.library.empty()) args.add("library", group.library);
    add_stack_arg("stack", group.stack, &args);
    trace_.slice(trace_.add_track(track, track_), at(group.first_ns), at(group.last_ns), name_of_stack(group.stack),
                 args);
  }

  // A mark has the times of its first and its last begin.
  void add_marks(const std::vector<MarkInfo>& marks) {
    for (const MarkInfo& mark : marks) {
      std::uint64_t& track = mark.kind == format::MarkKind::kRange ? ranges_ : marks_;
      PerfettoArgs args;
      args.add("kind", mark_kind_name(mark.kind));
      args.add("count", mark.count);
      trace_.instant(own(&track, mark.kind == format::MarkKind::kRange ? "NVTX ranges" : "marks"), at(mark.first_ns),
                     mark.name, args);
      if (mark.count > 1 && mark.last_ns > mark.first_ns)
        trace_.instant(track, at(mark.last_ns), mark.name + " (last of " + std::to_string(mark.count) + ")", args);
    }
  }

  void add_errors(const std::vector<ErrorGroup>& errors) {
    for (const ErrorGroup& error : errors) {
      PerfettoArgs args;
      args.add("api", error.api);
      args.add("count", error.count);
      args.add("code", error.code_name);
      args.add("device", gpu_name(error.device));
      add_stack_arg("stack", error.stack, &args);
      add_stack_arg("allocated", error.allocation_stack, &args);
      add_stack_arg("freed", error.free_stack, &args);
      trace_.instant(own(&errors_, "bad frees"), at(error.first_ns),
                     std::string(error_type_name(error.type)) + ": " + name_of_stack(error.stack), args);
    }
  }

  // Peaks and failures have a time; the findings about them have none.
  void add_breakdowns(const std::vector<Breakdown>& breakdowns) {
    for (const Breakdown& breakdown : breakdowns) {
      PerfettoArgs args;
      args.add("live_bytes", breakdown.live_bytes);
      args.add("live_allocations", breakdown.live_count);
      if (breakdown.asked_bytes != 0) args.add("asked_bytes", breakdown.asked_bytes);
      add_stack_arg("stack", breakdown.stack, &args);
      std::vector<std::string> held;
      for (std::size_t i = 0; i < breakdown.entries.size() && i < kShownGroups; ++i) {
        const BreakdownEntry& entry = breakdown.entries[i];
        held.push_back(format_bytes(entry.bytes) + " in " + plural(entry.count, "allocation", "allocations") + ": " +
                       name_of_stack(entry.stack));
      }
      if (!held.empty()) args.add("held", held);
      const std::string name = breakdown.out_of_memory ? "out of memory in " + breakdown.api + ", " : "peak of ";
      trace_.instant(own(&moments_, "peaks and failures"), at(breakdown.time_ns), name + gpu_name(breakdown.device),
                     args);
    }
  }

  // At the right end, because they have no time.
  void add_findings(const Report& report) {
    for (const std::string& reason : reasons_not_known(report)) add_finding("not known: " + reason, {});
    const std::string not_searched = not_searched_text(report);
    if (!not_searched.empty()) add_finding("not searched: " + not_searched, {});
    for (const Finding& finding : shown_findings(report, kNowhere)) {
      PerfettoArgs args;
      args.add("severity", severity_name(finding.severity));
      const std::vector<std::string> lines = lines_below(finding);
      if (!lines.empty()) args.add("facts", lines);
      for (std::size_t i = 0; i < finding.places.size(); ++i)
        add_stack_arg(std::to_string(i + 1) + " " + finding.places[i].label, finding.places[i].stack, &args);
      add_finding(sentence_of(finding), args);
    }
  }

  void set_end(std::uint64_t time_ns) { at(time_ns); }

 private:
  std::uint64_t at(std::uint64_t time_ns) {
    const std::uint64_t time = start_ns_ + std::min(time_ns, kLatest);
    last_ns_ = std::max(last_ns_, time);
    return time;
  }

  std::uint64_t own(std::uint64_t* track, const char* name) {
    if (*track == 0) *track = trace_.add_track(name, track_);
    return *track;
  }

  // A bucket has the highest, the lowest and the last value of its time, and the order of the first two is unknown:
  // each has a track. The last value of all stands at the end.
  void add_time_line(const std::string& gpu, const TimeLine& line, std::uint64_t end_ns) {
    if (line.buckets.empty()) return;
    const std::uint64_t high = trace_.add_counter(gpu + ": live bytes, highest", track_);
    const std::uint64_t low = trace_.add_counter(gpu + ": live bytes, lowest", track_);
    for (std::size_t i = 0; i < line.buckets.size(); ++i) {
      const std::uint64_t time = line.bucket_ns < kLatest / line.buckets.size() ? i * line.bucket_ns : kLatest;
      const format::TimeLineBucket& one = line.buckets[i];
      if (i == 0 || one.high != line.buckets[i - 1].high) trace_.count(high, at(time), one.high);
      if (i == 0 || one.low != line.buckets[i - 1].low) trace_.count(low, at(time), one.low);
    }
    const std::uint64_t begin_of_last = (line.buckets.size() - 1) * std::min(line.bucket_ns, kLatest >> 10);
    const std::uint64_t end = end_ns > begin_of_last ? end_ns : begin_of_last + std::min(line.bucket_ns, kLatest >> 10);
    for (const std::uint64_t track : {high, low}) trace_.count(track, at(end), line.buckets.back().last);
  }

  void add_readings(const std::string& gpu, const DeviceInfo& device, const std::vector<Breakdown>& breakdowns) {
    std::vector<format::MemoryReading> readings = {device.first, device.peak, device.exit};
    for (const Breakdown& breakdown : breakdowns) {
      if (breakdown.device == device.ordinal) readings.push_back(breakdown.memory);
    }
    const auto is_bad = [](const format::MemoryReading& one) {
      return one.total_bytes == 0 || one.free_bytes > one.total_bytes;
    };
    readings.erase(std::remove_if(readings.begin(), readings.end(), is_bad), readings.end());
    if (readings.empty()) return;
    const std::uint64_t track = trace_.add_counter(gpu + ": in use, all processes (driver)", track_);
    for (const format::MemoryReading& one : readings)
      trace_.count(track, at(one.time_ns), one.total_bytes - one.free_bytes);
  }

  void add_finding(const std::string& text, const PerfettoArgs& args) {
    trace_.instant(own(&findings_, "findings"), last_ns_, text, args);
  }

  PerfettoTrace& trace_;
  std::uint64_t track_;
  std::uint64_t start_ns_;
  std::uint64_t last_ns_;
  std::uint64_t marks_ = 0, ranges_ = 0, errors_ = 0, moments_ = 0, findings_ = 0;  // tracks; 0: none yet
};

const char* track_of(const Group& group, bool strict) { return counts_as_leak(group, strict) ? "not freed" : "cached"; }

// The groups of a report that have a slice: leaks and caches first, each worst first.
struct DrawnGroup {
  const Group* group;
  const char* track;
};

std::vector<DrawnGroup> drawn_groups(const Report& report, const std::string& process, const RenderOptions& options) {
  std::vector<DrawnGroup> drawn;
  for (const Group& group : report.leaks) drawn.push_back({&group, track_of(group, options.strict)});
  for (const Group& group : report.library) drawn.push_back({&group, "held by libraries"});
  if (drawn.size() > kMostSlices) {
    if (options.left_out != nullptr)
      options.left_out->push_back("perfetto: of the " + std::to_string(drawn.size()) + " stacks of " +
                                  printable(process) + " the trace has the first " + std::to_string(kMostSlices));
    drawn.resize(kMostSlices);
  }
  return drawn;
}

void draw_process(const Report& report, const RenderOptions& options, PerfettoTrace* trace) {
  const ProcessInfo& process = report.process;
  const std::string name =
      process_name(process.rank, std::string(base_name(process.executable)), process.pid, process.host);
  ProcessTracks tracks(trace, trace->add_process(name, process.pid, process.command), process.start_realtime_ns);
  tracks.set_end(process.end_time_ns);
  tracks.add_devices(report);
  for (const DrawnGroup& one : drawn_groups(report, name, options))
    tracks.add_group(*one.group, one.track, {0, one.group->bytes, one.group->count});
  tracks.add_marks(report.marks);
  tracks.add_errors(report.errors);
  tracks.add_breakdowns(report.breakdowns);
  tracks.add_findings(report);
}

// A merged report has no use over time, and the times of a stack are those of all processes.
void draw_job(const Report& report, const RenderOptions& options, PerfettoTrace* trace) {
  std::vector<ProcessTracks> processes;
  std::uint64_t start = ~0ULL;
  for (const JobProcess& process : report.job) {
    const std::string name = process_name(process.rank, "", process.pid, process.host);
    processes.emplace_back(trace, trace->add_process(name, process.pid, {}), process.start_realtime_ns);
    start = std::min(start, process.start_realtime_ns);
  }
  ProcessTracks all(trace, trace->add_track("all processes", 0), start);
  for (const DrawnGroup& one : drawn_groups(report, "all processes", options)) {
    for (const Share& share : one.group->shares) {
      if (share.process < processes.size()) processes[share.process].add_group(*one.group, one.track, share);
    }
    all.set_end(one.group->last_ns);
  }
  all.add_marks(report.marks);
  all.add_errors(report.errors);
  for (const Breakdown& breakdown : report.breakdowns) {
    if (breakdown.process < processes.size()) processes[breakdown.process].add_breakdowns({breakdown});
  }
  all.add_findings(report);
  if (options.left_out != nullptr)
    options.left_out->push_back(
        "perfetto: a merged report has no use over time; name the dumps, and leave out --merge, to see it");
}

}  // namespace

void render_perfetto(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  pass_everything(out);
  PerfettoTrace trace;
  for (const Report& report : reports) {
    if (report.job.empty()) {
      draw_process(report, options, &trace);
    } else {
      draw_job(report, options, &trace);
    }
  }
  trace.write(out);
}

}  // namespace culprit::report
