#include "report/render/render_markdown.h"

#include <algorithm>
#include <sstream>

#include "report/base/markdown_text.h"
#include "report/base/words.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/merge/spread.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/summary.h"
#include "report/render/text/render_picture.h"
#include "report/select/baseline.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

std::string where(const Group& group) {
  const Frame* frame = group.stack->caller;
  if (frame == nullptr && !group.stack->frames.empty()) frame = group.stack->frames.front();
  if (frame == nullptr) return "(stack not recorded)";
  const std::string place = frame->file.empty() ? "" : frame_place(*frame) + " ";
  return place + frame_function(*frame);
}

std::string device_text(const Group& group) {
  if (group.devices.size() > 1) return std::to_string(group.devices.size()) + " GPUs";
  if (kind_class(group.kind) == KindClass::kHostMemory || !group.device) return "host";
  return "GPU " + std::to_string(*group.device);
}

void print_details(const Report& report, const Group& group, std::ostream& out) {
  out << "\n<details><summary>" << format_bytes(group.bytes) << " " << preformatted(where(group))
      << "</summary>\n\n<pre>\n";
  for (const Frame* frame : group.stack->frames) {
    out << preformatted(padded(frame_place(*frame), 24) + " " + frame_function(*frame)) << "\n";
  }
  out << "</pre>\n";
  if (!group.shares.empty()) {
    const SpreadText spread = spread_text(group, report.job);
    out << "\n"
        << markdown_escaped(spread.line) << (spread.odd.empty() ? "" : "; **" + markdown_escaped(spread.odd) + "**")
        << "\n";
  }
  const std::string history = history_text(group);
  if (!history.empty()) out << "\n" << markdown_escaped(history) << "\n";
  const std::string hint = hint_for(group, words_of(report, group.cause).may_be_freed);
  if (!hint.empty()) out << "\nHint: " << markdown_escaped(hint) << "\n";
  out << "\n</details>\n";
}

// The live memory at an allocation failure, as in the text report.
void print_failures(const Report& report, std::ostream& out) {
  std::stringstream text;
  render_failures(report, RenderOptions(), text);
  std::string line;
  bool any = false;
  while (std::getline(text, line)) {
    out << (any ? "" : "<pre>\n") << preformatted(line) << "\n";
    any = true;
  }
  if (any) out << "</pre>\n\n";
}

void print_report(const Report& report, const RenderOptions& options, std::ostream& out) {
  const Summary& summary = report.summary;
  std::string command;
  for (const std::string& word : report.process.command) command += (command.empty() ? "" : " ") + word;
  if (command.empty()) command = report.process.executable;
  const bool complete = is_complete(report);
  std::string headline = complete ? "Nothing leaked" : "Not known";
  const std::vector<MemoryTotal> totals = totals_by_words(report, options.strict);
  if (!totals.empty()) headline.clear();
  for (const MemoryTotal& total : totals)
    headline += (headline.empty() ? "" : ", ") + std::string(total.words->sentence) + " " + format_bytes(total.bytes);
  if (!totals.empty() && !complete) headline += ", not known what else";
  out << "### " << headline << ": " << markdown_escaped(command);
  if (report.job.empty()) {
    out << " \\[" << report.process.pid << "\\]\n\n";
  } else {
    out << "\n\n" << markdown_escaped(job_text(report)) << "\n\n";
  }
  print_failures(report, out);

  if (report.dropped.merged_stacks != 0)
    out << "**Merged: " << plural(report.dropped.merged_stacks, "stack", "stacks")
        << "** kept their innermost frames only, for want of room: raise CULPRIT_MAX_DUMP\n\n";
  for (const std::string& reason : reasons_not_known(report))
    out << "**Not known:** " << markdown_escaped(reason) << "\n\n";
  out << plural(summary.leaked_allocations, "allocation", "allocations") << " in "
      << plural(summary.groups, "group", "groups") << ", " << plural(summary.errors, "bad free", "bad frees") << ", "
      << format_bytes(summary.cached_bytes) << " cached\n";
  const std::vector<FailedAllocation>& failed = report.failed_allocations;
  for (std::size_t i = 0; i < failed.size() && (options.all || i < kShownGroups); ++i)
    out << "\n**" << markdown_escaped(failed_allocation_text(failed[i])) << "**\n";
  if (report.baseline) {
    out << "\nSince " << markdown_escaped(report.baseline->path) << ": **" << report.baseline->added << " new**, "
        << report.baseline->grown << " grown, " << report.baseline->known << " known, " << report.baseline->gone.size()
        << " gone\n";
  }
  std::vector<const Group*> groups;
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict)) groups.push_back(&group);
  }
  const std::size_t shown = options.all ? groups.size() : std::min(groups.size(), kShownGroups);
  if (shown != 0) {
    out << "\n| " << (words_of(report).may_be_freed ? "not freed" : "leaked")
        << " | calls | where | API | memory | cause | id |\n| ---: | ---: | --- | --- | --- | --- | --- |\n";
    for (std::size_t i = 0; i < shown; ++i) {
      const Group& group = *groups[i];
      std::string cause = cause_name(group.cause);
      if (group.comparison == Comparison::kNew || group.comparison == Comparison::kGrown)
        cause += std::string(", **") + comparison_name(group.comparison) + "**";
      out << "| " << format_bytes(group.bytes) << " | " << group.count << " | " << markdown_escaped(where(group))
          << " | " << markdown_escaped(group.api) << " | " << kind_name(group.kind) << ", " << device_text(group)
          << " | " << cause << " | " << group.id << " |\n";
    }
    if (shown < groups.size())
      out << "\nand " << plural(groups.size() - shown, "group", "groups") << " more: `--all`\n";
    for (std::size_t i = 0; i < shown; ++i) print_details(report, *groups[i], out);
  }
  if (!report.errors.empty()) {
    out << "\n| bad free | times | API | code |\n| --- | ---: | --- | --- |\n";
    for (const ErrorGroup& error : report.errors) {
      out << "| " << error_type_name(error.type) << " | " << error.count << " | " << markdown_escaped(error.api)
          << " | " << markdown_escaped(error.code_name) << " |\n";
    }
  }
  if (!report.notes.empty()) out << "\n";
  for (const std::string& note : report.notes) out << "- " << markdown_escaped(note) << "\n";
}

}  // namespace

void render_markdown(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  bool first = true;
  for (const Report& report : reports) {
    if (!first) out << "\n";
    first = false;
    print_report(report, options, out);
  }
}

}  // namespace culprit::report
