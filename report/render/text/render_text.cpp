// The text report: leaks, worst first, each with the line that allocated it (group_text.h); then errors; then totals.
#include "report/render/text/render_text.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <ostream>
#include <streambuf>

#include "report/base/parallel.h"
#include "report/base/shell_words.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/findings/answers.h"
#include "report/findings/headline.h"
#include "report/findings/quiet_processes.h"
#include "report/merge/spread.h"
#include "report/model/memory_words.h"
#include "report/model/not_recorded.h"
#include "report/model/peak_use.h"
#include "report/model/pool.h"
#include "report/model/report.h"
#include "report/render/text/group_text.h"
#include "report/render/text/no_leak_sections.h"
#include "report/render/text/palette.h"
#include "report/render/text/render_balance.h"
#include "report/render/text/render_breakdown.h"
#include "report/render/text/render_findings.h"
#include "report/render/text/render_grouped.h"
#include "report/render/text/render_sharing.h"
#include "report/render/text/text_fields.h"
#include "report/select/keeper_list.h"
#include "report/select/render_options.h"

namespace culprit::report {

using namespace format;

namespace {

constexpr std::size_t kLongestCommand = 120;
constexpr std::size_t kShownSpans = 4;
constexpr std::size_t kShownNotRecorded = 8;

// Lets a stream append to strings without an extra copy.
class StringBuffer : public std::streambuf {
 public:
  void write_to(std::string* text) { text_ = text; }

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override {
    text_->append(data, static_cast<std::size_t>(count));
    return count;
  }
  int_type overflow(int_type c) override {
    if (c != traits_type::eof()) text_->push_back(traits_type::to_char_type(c));
    return 0;
  }

  std::string* text_ = nullptr;
};

class TextReport {
 public:
  TextReport(const Report& report, const RenderOptions& options, std::ostream& out)
      : report_(report), options_(options), palette_(options.colours), out_(out), fields_(palette_, options, out) {}

  void print() {
    print_dropped();
    print_share();
    print_header();
    print_recording();
    render_failures(report_, options_, out_);
    print_verdict();
    print_not_counted();
    print_audit();
    render_findings(report_, options_, out_);
    render_ran_out(report_, options_, out_);
    std::size_t number = 0;
    std::vector<const Group*> counted;
    for (const Group& group : report_.leaks) {
      if (options_.strict || group.cause != Cause::kCached) counted.push_back(&group);
    }
    if (options_.at_peak) {
      render_peaks(report_, options_, out_);
      print_totals();
      return;
    }
    if (options_.group_by.empty()) {
      print_groups(std::move(counted), &number);
    } else {
      render_grouped(report_, options_, out_);
    }
    if (!options_.strict) render_caches(report_, options_, &number, out_);
    if (!report_.library.empty() && (options_.all || options_.full_stacks)) {
      out_ << "\n" << palette_.title("HELD BY LIBRARIES FOR THEMSELVES") << " (--strict counts it)\n";
      print_groups(report_.library, &number);
    } else {
      render_held_by_libraries(report_, options_, &number, out_);
    }
    if (!report_.errors.empty()) {
      out_ << "\n" << palette_.bad("ERRORS") << "\n";
      GroupText printer(report_, options_, out_);
      std::size_t error_number = 0;
      for (const ErrorGroup& error : report_.errors) {
        if (!options_.all && error_number == kShownGroups) break;
        printer.print(error, ++error_number);
      }
      const std::size_t more = report_.errors.size() - error_number;
      if (more != 0) out_ << "\nand " << plural(more, "error", "errors") << " more: --all\n";
    }
    if (options_.resources && !report_.resources.empty()) {
      out_ << "\n" << palette_.title("RESOURCES NEVER ENDED") << " (not counted)\n";
      print_groups(report_.resources, &number);
    }
    if (options_.all) render_freed_at_end(report_, options_, out_);
    if (options_.all) render_balances(report_, options_, out_);
    print_totals();
  }

 private:
  // Printed first, because everything below is incomplete.
  void print_dropped() {
    if (report_.dropped.merged_stacks != 0) {
      out_ << palette_.bad("MERGED") << ": " << plural(report_.dropped.merged_stacks, "stack", "stacks")
           << " found no room and kept their innermost frames only"
           << (report_.dropped.reason.empty() ? " · raise CULPRIT_MAX_DUMP\n" : "\n");
    }
    for (const std::string& reason : reasons_not_known(report_))
      out_ << palette_.bad("NOT KNOWN") << ": " << reason << "\n";
  }

  void print_header() {
    const ProcessInfo& process = report_.process;
    std::string command;
    for (const std::string& word : process.command) command += (command.empty() ? "" : " ") + printable(word);
    if (command.empty()) command = printable(process.executable);
    out_ << "culprit · " << palette_.title(cut_to_width(command, kLongestCommand, "..."));
    const std::string part = part_text(report_.since_mark, report_.before_mark);
    if (!report_.job.empty()) {
      out_ << " · " << job_text(report_) << (part.empty() ? "" : " · ") << palette_.warn(part) << "\n";
      return;
    }
    out_ << " [" << process.pid << "]";
    if (process.rank) {
      out_ << " rank " << *process.rank;
      if (process.job_size != 0) out_ << " of " << process.job_size;
    }
    if (!process.host.empty()) out_ << " on " << printable(process.host);
    switch (process.status.ended) {
      case Ended::kExit:
        out_ << " · exit " << process.status.exit_status;
        break;
      case Ended::kKilled:
        out_ << " · killed";
        if (process.status.signal != 0) out_ << " by " << signal_text(process.status.signal);
        break;
      case Ended::kRunning:
        out_ << (report_.snapshot_ns != 0 ? " · snapshot at " + format_time(report_.snapshot_ns) : " · still running");
        break;
      case Ended::kUnknown:
        out_ << (process.status.detached ? " · detached" : " · end unknown");
        break;
    }
    if (!part.empty()) out_ << " · " << palette_.warn(part);
    for (const DeviceInfo& device : report_.devices) {
      std::string name = printable(device.name);
      if (name.rfind("NVIDIA ", 0) == 0) name = name.substr(7);
      out_ << " · GPU " << device.ordinal << " " << name << " " << cut_to_width(device.uuid, 12);
    }
    out_ << "\n";
  }

  // If recording was not on all the time: when it was on, and how much was in use before.
  void print_recording() {
    const RecordingInfo& recording = report_.recording;
    std::size_t shown = 0;
    for (const RecordedSpan& span : recording.spans) {
      const std::size_t left = recording.spans.size() - shown;
      if (++shown > kShownSpans && left > 1 && !options_.all) continue;
      out_ << "recorded from " << format_time(span.begin_ns);
      if (span.end_ns != 0) out_ << " to " << format_time(span.end_ns);
      const bool ran_before = span.begin_ns == 0 || report_.process.attached;
      if (shown == 1 && ran_before && recording.process_age_ns != 0)
        out_ << ", when the process was " << format_time(recording.process_age_ns + span.begin_ns) << " old";
      if (span.device)
        out_ << " · " << format_bytes(span.used_bytes) << " of GPU " << *span.device << " in use "
             << (span.read_at_begin ? "by then" : "at the first allocation after that");
      out_ << "\n";
    }
    if (report_.since_mark.time_ns) out_ << "since mark " << bound_text(report_.since_mark) << "\n";
    if (report_.before_mark.time_ns) out_ << "before mark " << bound_text(report_.before_mark) << "\n";
    if (recording.off) {
      out_ << "recording has been off since " << format_time(recording.last_switch_ns) << "\n";
    }
  }

  void print_share() {
    const std::string share = recorded_share_text(report_);
    if (!share.empty()) out_ << palette_.warn("RECORDED IN PART") << ": " << share << "\n";
  }

  void print_verdict() {
    const Summary& summary = report_.summary;
    const std::vector<std::string> others = headline_findings(report_, EndAndFailures::kTold);
    if (summary.groups == 0) {
      const std::string verdict = verdict_without_leaks(report_, EndAndFailures::kTold);
      out_ << (!others.empty()        ? palette_.bad(verdict)
               : is_complete(report_) ? palette_.good(verdict)
                                      : palette_.warn(verdict))
           << " · " << plural(summary.allocations, "allocation", "allocations") << ", "
           << plural(summary.frees, "free", "frees") << "\n";
      return;
    }
    const char* separator = "";
    for (const MemoryTotal& total : totals_by_words(report_, options_.strict)) {
      out_ << separator << palette_.bad(total.words->headline) << " " << palette_.title(format_bytes(total.bytes))
           << " in " << plural(total.allocations, "allocation", "allocations") << ", "
           << plural(total.groups, "group", "groups");
      separator = " · ";
    }
    for (const std::string& one : others) out_ << " · " << palette_.bad(in_capitals(one));
    if (!is_complete(report_)) out_ << " · " << palette_.warn("NOT KNOWN") << " what else";
    out_ << "\n";
    const std::string not_searched = not_searched_text(report_);
    if (!not_searched.empty()) out_ << palette_.warn("NOT SEARCHED") << ": " << not_searched << "\n";
  }

  // The marks whose live memory culprit diff compares.
  void print_marked() {
    constexpr std::size_t kNamed = 4;
    if (report_.marked.empty()) return;
    out_ << "marks   live bytes by line at ";
    if (report_.marked_taken > report_.marked.size())
      out_ << "the newest " << report_.marked.size() << " of " << report_.marked_taken << " moments: ";
    const std::size_t left_out = report_.marked.size() > kNamed ? report_.marked.size() - kNamed : 0;
    if (left_out != 0) out_ << "..., ";
    for (std::size_t i = left_out; i < report_.marked.size(); ++i) {
      const MarkedMemory& marked = report_.marked[i];
      const auto same = std::count_if(report_.marked.begin(), report_.marked.end(),
                                      [&](const MarkedMemory& one) { return one.name == marked.name; });
      out_ << (i == left_out ? "\"" : ", \"") << printable(marked.name);
      if (same > 1) out_ << "#" << marked.number;
      out_ << "\" (" << format_bytes(marked.bytes) << ")";
    }
    out_ << ": culprit diff DUMP --from NAME --to NAME\n";
  }

  // Only the numbers that are not 0.
  void print_not_counted() {
    const Summary& summary = report_.summary;
    std::string line;
    const auto add = [&](std::uint64_t number, const std::string& text) {
      if (number != 0) line += (line.empty() ? "" : " · ") + text;
    };
    add(summary.cached_bytes, format_bytes(summary.cached_bytes) + " cached");
    add(summary.library_allocations, format_bytes(summary.library_bytes) + " held by libraries for themselves");
    add(report_.dropped.total(), std::to_string(report_.dropped.total()) + " not recorded");
    add(summary.late_frees, plural(summary.late_frees, "release", "releases") + " refused at exit (no leak)");
    add(summary.unknown_frees,
        plural(summary.unknown_frees, "free", "frees") + " of allocations from before recording");
    add(summary.unknown_refusals,
        plural(summary.unknown_refusals, "refused free", "refused frees") + " of memory that was not recorded");
    if (!line.empty()) out_ << "not counted: " << line << "\n";
  }

  void print_audit() {
    const Audit& audit = report_.audit;
    const std::string headline = audit_headline(audit);
    if (headline.empty()) return;
    const bool fine = audit.state == AuditState::kOn && audit.not_recorded.empty();
    out_ << (fine ? palette_.title("AUDIT") : palette_.warn("AUDIT")) << "  " << headline << "\n";
    for (std::size_t i = 1; i < audit.not_recorded.size(); ++i) {
      const std::size_t left = audit.not_recorded.size() - i;
      if (!options_.all && i >= kShownNotRecorded && left > 1) {
        out_ << "       and " << left << " more: --all\n";
        break;
      }
      out_ << "       " << not_recorded_text(audit.not_recorded[i]) << "\n";
    }
  }

  // `number`: the number of the last printed group.
  void print_groups(const std::vector<Group>& groups, std::size_t* number) const {
    std::vector<const Group*> all;
    all.reserve(groups.size());
    for (const Group& group : groups) all.push_back(&group);
    print_groups(all, number);
  }

  // The largest groups, and a line about the rest, so that the report fits on a screen.
  void print_groups(std::vector<const Group*> groups, std::size_t* number) const {
    HiddenTotal rest;
    while (!options_.all && groups.size() > kShownGroups) {
      rest.add(*groups.back());
      groups.pop_back();
    }
    write_in_order(groups.size(), out_, [&] {
      // One printer per thread, because it caches frames.
      auto buffer = std::make_unique<StringBuffer>();
      auto stream = std::make_unique<std::ostream>(buffer.get());
      auto printer = std::make_unique<GroupText>(report_, options_, *stream);
      return [&, buffer = std::move(buffer), stream = std::move(stream), printer = std::move(printer)](
                 std::size_t i, std::string* text) {
        buffer->write_to(text);
        printer->print(*groups[i], *number + i + 1);
      };
    });
    *number += groups.size();
    if (rest.groups != 0) {
      out_ << "\nand " << plural(rest.groups, "group", "groups") << " more, " << format_bytes(rest.bytes) << " in "
           << rest.allocations << "x: --all\n";
    }
  }

  void print_totals() {
    out_ << "\n";
    std::map<std::pair<std::optional<unsigned>, std::string>, std::string> lines;
    for (const Total& total : report_.summary.totals) {
      // In a merged report, memory on several GPUs is listed under "GPUs".
      const bool spread = !total.device && kind_class(total.kind) != KindClass::kHostMemory && !report_.job.empty();
      std::string& line = lines[{total.device, spread ? "GPUs" : device_text(total.device)}];
      line += (line.empty() ? "" : " · ") + format_bytes(total.bytes + total.region_bytes) + " " +
              kind_name(total.kind) + " (" + std::to_string(total.count) + "x)";
      if (total.kind == Kind::kRegion) line += " inside";
    }
    for (const auto& [place, line] : lines) {
      out_ << "total   " << padded_to_width(place.second, 6) << "  " << line << "\n";
    }
    if (report_.summary.thread_ended_bytes != 0) {
      out_ << "ended   " << format_bytes(report_.summary.thread_ended_bytes)
           << " were allocated by threads that have ended\n";
    }
    if (report_.job.empty()) {
      for (const DeviceInfo& device : report_.devices) print_device(device);
    } else {
      print_job();
    }
    if (!options_.resources) {
      std::map<Kind, std::uint64_t> counts;
      for (const Group& group : report_.resources) counts[group.kind] += group.count;
      std::string line;
      for (const auto& [kind, count] : counts) {
        line += (line.empty() ? "" : ", ") + std::to_string(count) + " " + kind_count_name(kind, count);
      }
      if (!line.empty()) out_ << "hidden  " << line << ": --resources\n";
    }
    print_hidden();
    print_marked();
    const std::string not_known = lost_not_known_text(report_);
    if (!not_known.empty()) out_ << "lost    not known: " << not_known << "\n";
    for (const std::string& note : report_.notes) out_ << "note    " << printable(note) << "\n";
    for (const std::string& link : answer_links(report_)) out_ << "why     " << link << "\n";
    if (options_.kept && report_.summary.groups != 0) {
      const JobProcess* worst = worst_process();
      if (worst != nullptr) {
        out_ << "next    culprit report " << shell_path(worst->dump_path) << "\n";
      } else {
        out_ << "next    culprit report " << shell_path(report_.dump_path) << " --format json\n";
      }
    }
  }

  // The process that leaked most; nullptr in a report of one process.
  const JobProcess* worst_process() const {
    const auto most = std::max_element(
        report_.job.begin(), report_.job.end(),
        [](const JobProcess& left, const JobProcess& right) { return left.leaked_bytes < right.leaked_bytes; });
    return most == report_.job.end() ? nullptr : &*most;
  }

  void print_job() {
    const JobProcess* worst = worst_process();
    if (worst->leaked_bytes == 0) return;
    const auto index = static_cast<std::uint32_t>(worst - report_.job.data());
    out_ << "most    " << format_bytes(worst->leaked_bytes) << " in " << worst->leaked_allocations << "x by "
         << processes_text(report_.job, {index});
    if (options_.kept) out_ << ": " << shell_path(worst->dump_path);
    out_ << "\n";
  }

  // Hidden leaks, and leaks that are known from the baseline.
  void print_hidden() {
    for (const SuppressionUse& use : report_.suppressed) {
      out_ << "hidden  " << format_bytes(use.hidden.bytes) << " in "
           << plural(use.hidden.allocations, "allocation", "allocations") << " by " << printable(use.path) << ":"
           << use.line << " " << printable(use.text) << "\n";
    }
    if (report_.filtered && report_.filtered->groups != 0) {
      out_ << "hidden  " << format_bytes(report_.filtered->bytes) << " in "
           << plural(report_.filtered->groups, "group", "groups") << " that the filters leave out\n";
    }
    if (!report_.baseline) return;
    const BaselineResult& baseline = *report_.baseline;
    out_ << "since   " << printable(baseline.path) << ": " << baseline.added << " new, " << baseline.grown << " grown, "
         << baseline.known << " known";
    if (!baseline.gone.empty()) out_ << ", " << baseline.gone.size() << " gone";
    out_ << "\n";
    for (const GrownKeeper& grown : baseline.keepers) out_ << "        " << growth_text(grown) << "\n";
  }

  void print_device(const DeviceInfo& device) {
    auto used = [](const MemoryReading& reading) { return format_bytes(reading.total_bytes - reading.free_bytes); };
    auto known = [](const MemoryReading& reading) {
      return reading.total_bytes != 0 && reading.free_bytes <= reading.total_bytes;
    };
    std::string text;
    if (known(device.exit)) text += "in use " + used(device.exit) + " at exit";
    if (known(device.first)) text += (text.empty() ? "" : " · ") + used(device.first) + " after the first allocation";
    const PeakUse peak = peak_use(device);
    if (peak.bytes != 0) {
      text += (text.empty() ? "" : " · ") + format_bytes(peak.bytes) + " at the peak";
      if (peak.recorded_bytes > peak.read_bytes) {
        text += report_.job.empty() ? ", allocated by this process" : ", allocated by one process";
        if (peak.read_bytes != 0)
          text += " (the highest reading of cuMemGetInfo is " + format_bytes(peak.read_bytes) + ")";
      } else {
        text += " (a reading of cuMemGetInfo)";
      }
    }
    if (known(device.first)) text += " · of " + format_bytes(device.first.total_bytes);
    if (device.pool_reserved > device.pool_used) {
      text += " · its default pool keeps " + format_bytes(device.pool_reserved - device.pool_used) + " for re-use";
    }
    if (!text.empty()) out_ << "GPU " << device.ordinal << "   " << text << "\n";
    for (const Balance& balance : report_.balances) {
      if (balance.device != device.ordinal || balance.moment != Moment::kExit || !explains_more(balance)) continue;
      render_balance_line(balance, "at exit ", out_);
    }
  }

  const Report& report_;
  const RenderOptions& options_;
  Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

}  // namespace

void render_text(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  bool first = true;
  const Prominence shown = by_prominence(reports, options.all);
  for (const Report* report : shown.in_full) {
    if (!first) out << "\n";
    first = false;
    TextReport(*report, options, out).print();
  }
  const std::string quiet = quiet_processes_text(shown.quiet);
  if (!quiet.empty()) out << "\n" << quiet << (options.all ? "" : ": --all") << "\n";
}

}  // namespace culprit::report
