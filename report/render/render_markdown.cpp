#include "report/render/render_markdown.h"

#include <algorithm>
#include <sstream>

#include "report/base/markdown_text.h"
#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/findings/finding.h"
#include "report/findings/headline.h"
#include "report/findings/quiet_processes.h"
#include "report/merge/spread.h"
#include "report/model/folded_stack.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/render/text/render_breakdown.h"
#include "report/select/baseline.h"
#include "report/select/keeper_list.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// GitHub rejects a job summary of more than 1 MiB.
constexpr std::size_t kMostMarkdownBytes = 1000000;
constexpr std::size_t kRoomForNote = 300;      // for the sentence about what is left out
constexpr std::size_t kLeastForReport = 2048;  // enough for a headline, the totals and a row
constexpr std::size_t kLongestCommand = 1000;

std::string place_text(const ResolvedStack& stack) {
  const Frame* frame = naming_frame(stack);
  if (frame == nullptr) return "(stack not recorded)";
  const std::string place = frame->file.empty() ? "" : frame_place(*frame) + " ";
  return place + frame_function(*frame);
}

std::string where(const Group& group) { return place_text(*group.stack); }

std::string device_text(const Group& group) {
  if (group.devices.size() > 1) return std::to_string(group.devices.size()) + " GPUs";
  if (kind_class(group.kind) == KindClass::kHostMemory || !group.device) return "host";
  return "GPU " + std::to_string(*group.device);
}

// The events that explain the leak, with what() of an exception, as in the text report.
void print_evidence(const Group& group, std::ostream& out) {
  for (const Evidence& evidence : group.evidence) {
    for (const EvidenceLine& line : functions_of(evidence.type).lines(group, evidence)) {
      std::vector<std::string> texts;
      for (const Frame* frame : line.stack != nullptr ? line.stack->frames : line.callers)
        texts.push_back(padded_to_width(frame_place(*frame), 24) + " " + frame_function(*frame));
      if (texts.empty()) texts.push_back(line.text);
      std::string label = line.label;
      for (const std::string& text : texts) {
        out << preformatted(padded_to_width(label, 10) + " " + text) << "\n";
        label.clear();
      }
    }
  }
}

void print_details(const Report& report, const Group& group, const RenderOptions& options, std::ostream& out) {
  out << "\n<details><summary>" << format_bytes(group.bytes + group.region_bytes) << " " << preformatted(where(group))
      << "</summary>\n\n<pre>\n";
  const FoldedStack stack = folded(group.stack->frames, options.full_stacks);
  for (const std::vector<const Frame*>* frames : {&stack.python, &stack.native}) {
    for (const Frame* frame : *frames)
      out << preformatted(padded_to_width(frame_place(*frame), 24) + " " + frame_function(*frame)) << "\n";
  }
  if (stack.folded != 0) out << preformatted("and " + folded_text(stack)) << "\n";
  print_evidence(group, out);
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

void print_headline(const Report& report, bool strict, std::ostream& out) {
  std::string command;
  for (const std::string& word : report.process.command) command += (command.empty() ? "" : " ") + word;
  if (command.empty()) command = report.process.executable;
  if (command.size() > kLongestCommand) command = command.substr(0, kLongestCommand) + "...";
  const bool complete = is_complete(report);
  std::string headline;
  for (const MemoryTotal& total : totals_by_words(report, strict))
    headline += (headline.empty() ? "" : ", ") + std::string(total.words->sentence) + " " + format_bytes(total.bytes);
  if (headline.empty()) {
    headline = sentence_without_leaks({&report});
  } else {
    for (const std::string& one : headline_findings(report, EndAndFailures::kTold)) headline += ", " + one;
    if (!complete) headline += ", not known what else";
  }
  std::string part = part_text(report.since_mark, report.before_mark);
  if (!part.empty()) part = ", " + markdown_escaped(part);
  out << "### " << headline << ": " << markdown_escaped(command);
  if (report.job.empty()) {
    out << " \\[" << report.process.pid << "\\]" << part << "\n\n";
  } else {
    out << part << "\n\n" << markdown_escaped(job_text(report)) << "\n\n";
  }
}

void print_totals(const Report& report, std::ostream& out) {
  const Summary& summary = report.summary;
  out << plural(summary.leaked_allocations, "allocation", "allocations") << " in "
      << plural(summary.groups, "group", "groups");
  if (summary.errors != 0) out << ", " << plural(summary.errors, "bad free", "bad frees");
  if (summary.cached_bytes != 0) out << ", " << format_bytes(summary.cached_bytes) << " cached";
  out << "\n";
  if (!report.baseline) return;
  out << "\nSince " << markdown_escaped(report.baseline->path) << ": **" << report.baseline->added << " new**, "
      << report.baseline->grown << " grown, " << report.baseline->known << " known, " << report.baseline->gone.size()
      << " gone\n";
  for (const GrownKeeper& grown : report.baseline->keepers) out << "- " << markdown_escaped(growth_text(grown)) << "\n";
}

void print_row(const Group& group, std::ostream& out) {
  std::string cause = cause_name(group.cause);
  if (group.comparison == Comparison::kNew || group.comparison == Comparison::kGrown)
    cause += std::string(", **") + comparison_name(group.comparison) + "**";
  out << "| " << format_bytes(group.bytes + group.region_bytes) << " | " << group.count << " | "
      << markdown_escaped(where(group)) << " | " << markdown_escaped(group.api) << " | " << kind_name(group.kind)
      << ", " << device_text(group) << " | " << cause << " | " << group.id << " |\n";
}

void print_error(const ErrorGroup& error, std::ostream& out) {
  out << "| " << error_type_name(error.type) << " | " << error.count << " | " << markdown_escaped(error.api) << " | "
      << markdown_escaped(error.code_name) << " |\n";
}

// One finding: its sentence, and a list of its facts, its hint and its places.
void print_finding(const Finding& finding, std::ostream& out) {
  out << "**" << markdown_escaped(finding.title) << ":** " << markdown_escaped(finding.headline) << "\n\n";
  for (const std::string& line : lines_below(finding)) out << "- " << markdown_escaped(line) << "\n";
  for (const FindingPlace& place : finding.places)
    out << "- " << place.label << ": " << markdown_escaped(place_text(*place.stack)) << "\n";
  if (!finding.facts.empty() || !finding.hint.empty() || !finding.places.empty()) out << "\n";
}

// Text of a limited size, made of pieces that are there or not.
class Pieces {
 public:
  explicit Pieces(std::size_t most) : most_(most) {}
  // Adds what `print` writes to a stream. False: it does not fit.
  template <typename Print>
  bool add(Print print) {
    std::ostringstream piece;
    print(piece);
    const std::string text = piece.str();
    if (text_.size() + text.size() > most_) return false;
    text_ += text;
    return true;
  }
  // Adds one piece for each item, as long as they fit. Returns how many.
  template <typename Items, typename Print>
  std::size_t add_each(const Items& items, std::size_t count, Print print) {
    std::size_t done = 0;
    while (done < count && add([&](std::ostream& out) { print(items[done], out); })) ++done;
    return done;
  }
  const std::string& text() const { return text_; }

 private:
  std::size_t most_;
  std::string text_;
};

std::string with_comma(const std::string& list) { return list.empty() ? "" : list + ", "; }

// A report in at most `most` bytes; empty when not even its headline fits. `left_out` gets what is missing.
std::string report_text(const Report& report, const RenderOptions& options, std::size_t most, std::string* left_out) {
  std::vector<const Group*> groups;
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict)) groups.push_back(&group);
  }
  const std::size_t wanted = options.all ? groups.size() : std::min(groups.size(), kShownGroups);
  // Each part may use the room that those before it left.
  Pieces head(most - std::min(most, kRoomForNote));
  const bool has_headline = head.add([&](std::ostream& out) { print_headline(report, options.strict, out); });
  if (!has_headline) return "";
  std::size_t room = most - kRoomForNote - head.text().size();
  Pieces facts(room / 4);
  bool complete = facts.add([&](std::ostream& out) { print_failures(report, out); });
  if (report.dropped.merged_stacks != 0) {
    complete &= facts.add([&](std::ostream& out) {
      out << "**Merged: " << plural(report.dropped.merged_stacks, "stack", "stacks")
          << "** kept their innermost frames only, for want of room: raise CULPRIT_MAX_DUMP\n\n";
    });
  }
  const std::vector<std::string> reasons = reasons_not_known(report);
  complete &= facts.add_each(reasons, reasons.size(), [](const std::string& reason, std::ostream& out) {
    out << "**Not known:** " << markdown_escaped(reason) << "\n\n";
  }) == reasons.size();
  const std::string share = recorded_share_text(report);
  if (!share.empty()) {
    facts.add([&](std::ostream& out) { out << "**Recorded in part:** " << markdown_escaped(share) << "\n\n"; });
  }
  const std::string not_searched = not_searched_text(report);
  if (!not_searched.empty()) {
    complete &=
        facts.add([&](std::ostream& out) { out << "**Not searched:** " << markdown_escaped(not_searched) << "\n\n"; });
  }
  const std::vector<Finding> findings = shown_findings(report, kInMarkdown);
  complete &= facts.add_each(findings, findings.size(), print_finding) == findings.size();
  complete &= facts.add([&](std::ostream& out) { print_totals(report, out); });
  room -= facts.text().size();
  Pieces errors(room / 8);
  errors.add([](std::ostream& out) { out << "\n| bad free | times | API | code |\n| --- | ---: | --- | --- |\n"; });
  const std::size_t shown_errors = errors.add_each(report.errors, report.errors.size(), print_error);
  if (shown_errors != 0) room -= errors.text().size();
  Pieces notes(room / 8);
  notes.add([](std::ostream& out) { out << "\n"; });
  const std::size_t shown_notes =
      notes.add_each(report.notes, report.notes.size(),
                     [](const std::string& note, std::ostream& out) { out << "- " << markdown_escaped(note) << "\n"; });
  if (shown_notes != 0) room -= notes.text().size();
  Pieces rows(room / 2);
  rows.add([&](std::ostream& out) {
    out << "\n| " << (words_of(report).may_be_freed ? "not freed" : "leaked")
        << " | calls | where | API | memory | cause | id |\n"
           "| ---: | ---: | --- | --- | --- | --- | --- |\n";
  });
  const std::size_t shown =
      rows.add_each(groups, wanted, [](const Group* group, std::ostream& out) { print_row(*group, out); });
  if (shown != 0) room -= rows.text().size();
  Pieces details(room);
  const std::size_t detailed = details.add_each(
      groups, shown, [&](const Group* group, std::ostream& out) { print_details(report, *group, options, out); });

  std::string text = head.text() + facts.text();
  if (shown != 0) text += rows.text();
  // The options are no help where the size is the reason.
  if (shown == wanted && shown < groups.size())
    text += "\nand " + plural(groups.size() - shown, "group", "groups") + " more: `--all`\n";
  text += details.text();
  if (shown_errors != 0) text += errors.text();
  if (shown_notes != 0) text += notes.text();
  std::string missing;
  if (shown < wanted) missing = "the " + plural(wanted - shown, "smallest group", "smallest groups") + " of leaks";
  if (detailed < shown)
    missing = with_comma(missing) + "the stacks of " + plural(shown - detailed, "other group", "other groups");
  if (shown_errors < report.errors.size())
    missing =
        with_comma(missing) + plural(report.errors.size() - shown_errors, "kind of bad free", "kinds of bad frees");
  if (shown_notes < report.notes.size())
    missing = with_comma(missing) + plural(report.notes.size() - shown_notes, "note", "notes");
  if (!complete) missing = with_comma(missing) + "facts about the run";
  if (!missing.empty()) {
    text += "\n**Left out**, because job summaries are limited to 1 MiB: " + missing + "\n";
    *left_out = missing;
  }
  return text;
}

}  // namespace

void render_markdown(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  std::size_t room = kMostMarkdownBytes - kRoomForNote;
  std::string missing;
  std::size_t missing_in = 0;
  const Prominence prominence = by_prominence(reports, options.all);
  const std::vector<const Report*>& shown = prominence.in_full;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    // Every process gets an equal part, and the room that the others did not need.
    const std::size_t part = std::min(room, std::max(room / (shown.size() - i), kLeastForReport));
    std::string left_out;
    std::string text = report_text(*shown[i], options, part, &left_out);
    if (text.empty()) {
      const std::string rest = plural(shown.size() - i, "process", "processes");
      out << "\n**Left out**, because job summaries are limited to 1 MiB: the reports of " << rest << "\n";
      if (!missing.empty()) missing += ", ";
      missing += "the reports of " + rest;
      break;
    }
    if (i != 0) text.insert(0, "\n");
    room -= std::min(room, text.size());
    out << text;
    if (!left_out.empty()) {
      if (missing_in++ == 0) missing = left_out;
    }
  }
  const std::string quiet = quiet_processes_text(prominence.quiet);
  if (!quiet.empty()) out << "\n" << markdown_escaped(quiet) << "\n";
  if (missing.empty() || options.left_out == nullptr) return;
  options.left_out->push_back("left out of the Markdown, which job summaries limit to 1 MiB: " + missing +
                              (missing_in > 1 ? ", and more of other processes" : "") +
                              "; --format json has everything");
}

}  // namespace culprit::report
