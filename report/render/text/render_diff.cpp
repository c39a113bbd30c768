// The difference of two runs, as text and as the summary of a CI job.
#include "report/render/text/render_diff.h"

#include <sstream>

#include "report/base/markdown_text.h"
#include "report/base/words.h"
#include "report/findings/headline.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/diff.h"
#include "report/select/keeper_list.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// Of a Markdown table: GitHub rejects a job summary of more than 1 MiB.
constexpr std::size_t kMostDiffRowBytes = 900000;
constexpr char kAmongRecorded[] = " among the recorded allocations";
constexpr std::size_t kMostFindings = 50;

// "1.00 GiB", or "64.0 MiB -> 128 MiB".
std::string sizes_text(const DiffEntry& entry, const char* arrow) {
  if (entry.before == nullptr || entry.now == nullptr) return format_bytes(entry.shown().leak.bytes);
  return format_bytes(entry.before->leak.bytes) + arrow + format_bytes(entry.now->leak.bytes);
}

std::string counts_text(const DiffEntry& entry, const char* arrow) {
  const std::string now = std::to_string(entry.shown().leak.count) + "x";
  if (entry.before == nullptr || entry.now == nullptr || entry.before->leak.count == entry.now->leak.count) return now;
  return std::to_string(entry.before->leak.count) + "x" + arrow + now;
}

// The path, or a moment of its run: `a.dump at mark "sleep" (1.2 s)`.
std::string side_text(const LeakList& list) {
  if (!list.mark) return list.path;
  if (list.source == "now") return "now";
  if (list.source == "end") return "its end";
  if (list.source == "beginning") return list.path + " at its beginning";
  return list.path + " at mark \"" + list.mark->name + "\" (" + format_time(list.mark->time_ns) + ")";
}

// "leaked 1.00 GiB, then 2.00 GiB (+1.00 GiB)".
std::string total_text(const Diff& diff) {
  const std::uint64_t before = diff.before.bytes();
  const std::uint64_t now = diff.now.bytes();
  std::string text = (diff.now.mark ? "live " : "leaked ") + format_bytes(before) + ", then " + format_bytes(now);
  if (now > before) text += " (+" + format_bytes(now - before) + ")";
  if (now < before) text += " (-" + format_bytes(before - now) + ")";
  return text;
}

// A bad thing comes first, and a number that is 0 is left out.
struct Headline {
  std::string verdict;  // "1 new, 2 grown"
  bool worse = false;
  bool known = true;
  std::string rest;  // ", 3 gone"
};

Headline headline_of(const Diff& diff, const std::vector<Change>& others) {
  Headline headline;
  const auto add = [&](Change change, std::string* text, const char* separator) {
    const std::size_t count = diff.with(change).size();
    if (count != 0) *text += separator + std::to_string(count) + " " + change_name(change);
  };
  add(Change::kNew, &headline.verdict, "");
  add(Change::kGrown, &headline.verdict, headline.verdict.empty() ? "" : ", ");
  headline.worse = !headline.verdict.empty();
  headline.known = diff.before.not_known.empty() && diff.now.not_known.empty();
  if (!headline.worse) headline.verdict = "nothing new or grown";
  for (const Change change : others) add(change, &headline.rest, ", ");
  return headline;
}

std::string heading(Change change) {
  std::string text = change_name(change);
  for (char& c : text) c = static_cast<char>(c - 'a' + 'A');
  return text;
}

std::string place_text(const ListedLeak& listed) {
  if (listed.frames.empty()) return listed.leak.where;
  const Frame& frame = *listed.frames.front();
  return frame.file.empty() ? frame_function(frame) : frame_place(frame) + " " + frame_function(frame);
}

class DiffText {
 public:
  DiffText(const Diff& diff, const RenderOptions& options, std::ostream& out)
      : diff_(diff), options_(options), palette_(options.colours), out_(out), fields_(palette_, options, out) {}

  void print() {
    for (const LeakList* list : {&diff_.before, &diff_.now}) {
      for (const std::string& reason : list->not_known)
        out_ << palette_.bad("NOT KNOWN") << ": " << printable(list->path) << ": " << printable(reason) << "\n";
    }
    out_ << "culprit diff · " << printable(side_text(diff_.before)) << " · " << printable(side_text(diff_.now)) << "\n";
    const Headline headline = headline_of(diff_, {Change::kShrunk, Change::kGone, Change::kSame});
    if (headline.worse) {
      out_ << palette_.bad(headline.verdict);
    } else {
      out_ << (headline.known ? palette_.good(in_capitals(headline.verdict))
                              : palette_.warn("NOT KNOWN: " + headline.verdict + kAmongRecorded));
    }
    out_ << headline.rest;
    if (headline.worse && !headline.known) out_ << " · " << palette_.warn("NOT KNOWN") << " what else";
    out_ << " · " << total_text(diff_) << "\n";
    for (const Change change : kShownChanges) print_list(change);
    print_findings();
    print_keepers();
    if (!diff_.before.notes.empty() || !diff_.now.notes.empty()) out_ << "\n";
    for (const LeakList* list : {&diff_.before, &diff_.now}) {
      for (const std::string& note : list->notes)
        out_ << "note    " << printable(list->path) << ": " << printable(note) << "\n";
    }
  }

 private:
  void print_findings() {
    std::size_t shown = 0;
    std::size_t left = 0;
    for (const FindingChange& one : diff_.findings) {
      if (one.change == Change::kSame) continue;
      if (!options_.all && shown == kShownGroups) {
        ++left;
        continue;
      }
      if (shown++ == 0) out_ << "\n" << palette_.title("FINDINGS") << "\n\n";
      const std::string title = in_capitals(printable(one.finding.title));
      out_ << padded_to_width(change_name(one.change), 5)
           << (one.change == Change::kNew ? palette_.warn(title) : palette_.good(title)) << ": "
           << printable(one.finding.text) << "\n";
    }
    if (left != 0) out_ << "\nand " << plural(left, "finding", "findings") << " more: --all\n";
  }

  void print_keepers() {
    if (diff_.keepers.empty()) return;
    out_ << "\n" << palette_.title("KEPT IN CACHES") << "\n\n";
    std::size_t shown = 0;
    for (const GrownKeeper& grown : diff_.keepers) {
      if (!options_.all && shown == kShownGroups) break;
      ++shown;
      const std::string text = growth_text(grown);
      out_ << (grown.growth() > 0 ? palette_.warn(text) : text) << "\n";
    }
    if (shown < diff_.keepers.size())
      out_ << "\nand " << plural(diff_.keepers.size() - shown, "keeper", "keepers") << " more: --all\n";
  }

  void print_list(Change change) {
    const std::vector<DiffEntry>& entries = diff_.with(change);
    if (entries.empty()) return;
    out_ << "\n" << palette_.title(heading(change)) << "\n";
    std::size_t number = 0;
    for (const DiffEntry& entry : entries) {
      if (!options_.all && number == kShownGroups) break;
      print_entry(entry, ++number);
    }
    if (number < entries.size())
      out_ << "\nand " << plural(entries.size() - number, "group", "groups") << " more: --all\n";
  }

  void print_entry(const DiffEntry& entry, std::size_t number) {
    const BaselineLeak& leak = entry.shown().leak;
    const bool moved = entry.before != nullptr && entry.now != nullptr && entry.before->leak.cause != leak.cause &&
                       entry.before->leak.cause != kLiveCause;
    out_ << "\n"
         << padded_to_width(std::to_string(number), 3) << palette_.title(sizes_text(entry, " -> ")) << "  "
         << counts_text(entry, " -> ") << "  " << printable(leak.api) << "  " << printable(leak.kind) << "   "
         << palette_.warn((moved ? printable(entry.before->leak.cause) + " -> " : "") + printable(leak.cause)) << "   "
         << palette_.faint(entry.id) << "\n";
    if (entry.shown().frames.empty()) {
      fields_.field("allocated", printable(leak.where));
    } else {
      fields_.mixed_stack("allocated", entry.shown().frames);
    }
    if (entry.before != nullptr && !entry.before->leak.comment.empty())
      fields_.field("comment", printable(entry.before->leak.comment));
  }

  const Diff& diff_;
  const RenderOptions& options_;
  Palette palette_;
  std::ostream& out_;
  TextFields fields_;
};

}  // namespace

void render_diff_text(const Diff& diff, const RenderOptions& options, std::ostream& out) {
  DiffText(diff, options, out).print();
}

void render_diff_markdown(const Diff& diff, const RenderOptions& options, std::ostream& out) {
  std::size_t room = kMostDiffRowBytes;
  Headline headline = headline_of(diff, {Change::kShrunk, Change::kGone});
  if (!headline.worse && headline.known) headline.verdict[0] = 'N';
  if (!headline.worse && !headline.known) headline.verdict = "Not known; " + headline.verdict + kAmongRecorded;
  if (headline.worse && !headline.known) headline.rest += ", not known what else";
  out << "### " << headline.verdict << headline.rest << "\n\n"
      << markdown_escaped(side_text(diff.before)) << ", then " << markdown_escaped(side_text(diff.now)) << ": "
      << total_text(diff) << ", " << plural(diff.with(Change::kSame).size(), "group", "groups") << " unchanged\n";
  for (const LeakList* list : {&diff.before, &diff.now}) {
    for (const std::string& reason : list->not_known)
      out << "\n**Not known:** " << markdown_escaped(list->path) << ": " << markdown_escaped(reason) << "\n";
  }
  std::size_t findings = 0;
  for (const FindingChange& one : diff.findings) {
    if (one.change == Change::kSame || findings == kMostFindings) continue;
    out << (findings++ == 0 ? "\n" : "") << "- " << (one.change == Change::kNew ? "**new** " : "gone: ")
        << markdown_escaped(one.finding.title) << ": " << markdown_escaped(one.finding.text) << "\n";
  }
  std::size_t keepers = 0;
  for (const GrownKeeper& grown : diff.keepers) {
    if (keepers == kMostFindings) break;
    out << (keepers++ == 0 ? "\n" : "") << "- " << markdown_escaped(growth_text(grown)) << "\n";
  }
  for (const Change change : kShownChanges) {
    const std::vector<DiffEntry>& entries = diff.with(change);
    if (entries.empty()) continue;
    out << "\n| " << change_name(change)
        << " | calls | where | API | memory | cause | id |\n| ---: | ---: | --- | --- | --- | --- | --- |\n";
    std::size_t shown = 0;
    bool full = false;
    for (const DiffEntry& entry : entries) {
      if (!options.all && shown == kShownGroups) break;
      const BaselineLeak& leak = entry.shown().leak;
      std::ostringstream row;
      row << "| " << sizes_text(entry, " → ") << " | " << counts_text(entry, " → ") << " | "
          << markdown_escaped(place_text(entry.shown())) << " | " << markdown_escaped(leak.api) << " | "
          << markdown_escaped(leak.kind) << " | " << markdown_escaped(leak.cause) << " | " << entry.id << " |\n";
      full = row.str().size() > room;
      if (full) break;
      out << row.str();
      room -= row.str().size();
      ++shown;
    }
    if (shown == entries.size()) continue;
    const std::string rest = plural(entries.size() - shown, "group", "groups");
    if (full) {
      out << "\n**Left out**, because job summaries are limited to 1 MiB: " << rest << "\n";
    } else {
      out << "\nand " << rest << " more: `--all`\n";
    }
  }
}

}  // namespace culprit::report
