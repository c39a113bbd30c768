// For a growing server: the allocations of a period that are still live, by allocating line, with their rate per
// minute.
#include "report/render/text/render_survivors.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "report/base/shell_words.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/findings/headline.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/render/text/palette.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

constexpr std::uint64_t kMinuteNs = 60'000'000'000;

struct Survivors {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string api;
};

// The program's own frames, innermost first: the Python ones if there are any. Otherwise the innermost frame.
std::vector<const Frame*> own_frames(const ResolvedStack& stack) {
  std::vector<const Frame*> own;
  for (const Frame* frame : stack.frames) {
    const bool counts = stack.has_python ? frame->python : !frame->file.empty();
    if (counts && is_program_frame(*frame)) own.push_back(frame);
  }
  if (own.empty() && naming_frame(stack) != nullptr) own.push_back(naming_frame(stack));
  return own;
}

// The allocating line and its caller, because the former is often a helper with many callers.
std::string line_text(const Group& group) {
  const std::vector<const Frame*> frames = own_frames(*group.stack);
  if (frames.empty()) return "(stack not recorded)";
  return frame_text(*frames[0]) + (frames.size() > 1 ? "  from " + frame_text(*frames[1]) : "");
}

std::string a_minute(std::uint64_t bytes, std::uint64_t ns) {
  if (ns == 0) return "";
  const double rate = static_cast<double>(bytes) * static_cast<double>(kMinuteNs) / static_cast<double>(ns);
  return format_bytes(static_cast<std::uint64_t>(rate)) + "/min";
}

std::uint64_t recorded_ns(const Report& report) {
  std::uint64_t end = report.process.end_time_ns;
  for (const Group& group : report.leaks) end = std::max(end, group.last_ns);
  const std::uint64_t begin = report.recording.spans.empty() ? 0 : report.recording.spans.front().begin_ns;
  return end - std::min(begin, end);
}

// " · exit 0" of a process that ended while it was recorded.
std::string end_text(const ProcessStatus& status) {
  if (status.ended == Ended::kExit) return " · exit " + std::to_string(status.exit_status);
  if (status.ended == Ended::kKilled)
    return " · killed" + (status.signal != 0 ? " by " + signal_text(status.signal) : "");
  return status.gone ? " · end unknown" : "";
}

}  // namespace

void render_survivors(const Report& report, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  for (const std::string& reason : reasons_not_known(report)) out << palette.bad("NOT KNOWN") << ": " << reason << "\n";
  const std::uint64_t ns = recorded_ns(report);
  std::map<std::string, Survivors> lines;
  std::map<std::string, Survivors> all;  // by headline, LEAKED first
  for (const std::vector<Group>* groups : {&report.leaks, &report.library}) {
    for (const Group& group : *groups) {
      if (group.bytes == 0) continue;
      Survivors& line = lines[line_text(group)];
      for (Survivors* sum : {&line, &all[words_of(report, group.cause).headline]}) {
        sum->bytes += group.bytes;
        sum->count += group.count;
      }
      if (line.api.empty()) line.api = group.api;
      if (line.api != group.api) line.api = "several calls";
    }
  }
  std::vector<std::pair<std::string, Survivors>> rows(lines.begin(), lines.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& left, const auto& right) { return left.second.bytes > right.second.bytes; });

  std::string command;
  for (const std::string& word : report.process.command) command += (command.empty() ? "" : " ") + word;
  out << "culprit · " << printable(command) << " [" << report.process.pid << "] · recorded for " << format_time(ns)
      << end_text(report.process.status) << "\n";
  for (const RecordedSpan& span : report.recording.spans) {
    if (!span.device) continue;
    out << format_bytes(span.used_bytes) << " of GPU " << *span.device << " in use "
        << (span.read_at_begin ? "when it began" : "at its first allocation") << "\n";
  }
  const std::vector<std::string> others = headline_findings(report);
  if (rows.empty()) {
    const std::string verdict = verdict_without_leaks(report);
    out << (!others.empty()       ? palette.bad(verdict)
            : is_complete(report) ? palette.good(verdict)
                                  : palette.warn(verdict))
        << " · " << plural(report.summary.allocations, "allocation", "allocations") << "\n";
  } else {
    std::uint64_t bytes = 0;
    const char* separator = "";
    for (const auto& [headline, sum] : all) {
      out << separator
          << palette.bad(headline + " " + format_bytes(sum.bytes) + " in " +
                         plural(sum.count, "allocation", "allocations"));
      bytes += sum.bytes;
      separator = " · ";
    }
    out << " of " << report.summary.allocations << " made in that time · " << a_minute(bytes, ns);
    for (const std::string& one : others) out << " · " << palette.bad(in_capitals(one));
    out << (is_complete(report) ? "" : " · NOT KNOWN what else") << "\n\n";
  }
  const std::size_t shown = options.all ? rows.size() : std::min(rows.size(), kShownGroups);
  for (std::size_t i = 0; i < shown; ++i) {
    const Survivors& row = rows[i].second;
    out << padded_to_width(a_minute(row.bytes, ns), 16) << padded_to_width(format_bytes(row.bytes), 10)
        << padded_to_width(std::to_string(row.count) + "x", 8) << padded_to_width(row.api, 18) << "  " << rows[i].first
        << "\n";
  }
  if (shown < rows.size()) out << "and " << rows.size() - shown << " more: --all\n";
  if (report.summary.unknown_frees != 0)
    out << "note    " << plural(report.summary.unknown_frees, "allocation", "allocations")
        << " from before the recording were freed in it\n";
  if (report.summary.unknown_refusals != 0)
    out << "note    " << plural(report.summary.unknown_refusals, "free was", "frees were")
        << " refused of memory that was not recorded\n";
  if (options.kept) out << "next    culprit report " << shell_path(report.dump_path) << "\n";
}

}  // namespace culprit::report
