// Writes finished reports out. One function a format; none of them decides anything.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "report/model/report_model.h"

namespace culprit {

struct RenderOptions {
  bool colours = false;
  bool resources = false;  // list streams, events, contexts, ... instead of one line with totals
  bool strict = false;     // cached memory counts
  bool all = false;        // all groups, not only the first of each list
  std::string group_by;    // function, library, thread, device, cause, mark, rank; empty: each stack apart
  bool at_peak = false;    // who held what when use was highest, instead of what was never freed
  bool source = true;      // html: with the source lines around what is reported, when they are at hand ...
  std::string sysroot;     // ... below this folder ...
  std::vector<std::string> source_dirs;  // ... or in one of these
  bool kept = true;                      // the dumps stay, so that further commands can be suggested
};

// How many groups of a list the formats for people show unless all are asked for.
constexpr std::size_t kShownGroups = 10;

struct Sweep;
struct Diff;

void render_text(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// One report is one object of schema culprit.report/1; several stand in the list of a culprit.reports/1. Text that is
// no valid UTF-8 is made so.
void render_json(const std::vector<Report>& reports, std::ostream& out);

// The other formats; each file says what reads it. All of them show what counts as a leak only.
void render_markdown(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_junit(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_folded(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_pprof(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_sarif(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// One page of HTML that needs nothing else, with what render_json() says and more (html_page.h).
void render_html(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// What was allocated while a process was attached and is still alive, by line, with the rate.
void render_survivors(const Report& report, const RenderOptions& options, std::ostream& out);

// Parts of the text report: what was live when an allocation failed with out of memory, the last time only (of a job in
// each of the first few processes) unless all are asked for; and at the peak of each device.
void render_failures(const Report& report, const RenderOptions& options, std::ostream& out);
void render_peaks(const Report& report, const RenderOptions& options, std::ostream& out);

// The leaks of one report as one line for each value of options.group_by: a part of the text report.
void render_grouped(const Report& report, const RenderOptions& options, std::ostream& out);

// What a sweep found: for people, and as one object of schema culprit.sweep/1.
void render_sweep_text(const Sweep& sweep, const RenderOptions& options, std::ostream& out);
void render_sweep_json(const Sweep& sweep, std::ostream& out);

// How two runs differ: for people, for the summary of a CI job, as one object of schema culprit.diff/1, and as a page.
void render_diff_text(const Diff& diff, const RenderOptions& options, std::ostream& out);
void render_diff_markdown(const Diff& diff, const RenderOptions& options, std::ostream& out);
void render_diff_json(const Diff& diff, std::ostream& out);
void render_diff_html(const Diff& diff, std::ostream& out);

// One group as it stands in the text report, an empty line before it; one error likewise.
void render_group(const Report& report, const Group& group, std::size_t number, const RenderOptions& options,
                  std::ostream& out);
void render_error(const Report& report, const ErrorGroup& error, std::size_t number, const RenderOptions& options,
                  std::ostream& out);

// The same as objects of JSON text.
std::string group_as_json(const Group& group);
std::string error_as_json(const ErrorGroup& error);
std::string stack_as_json(const ResolvedStack& stack);

// "1.25 GiB", "11001 B", with three digits that matter.
std::string format_bytes(std::uint64_t bytes);

}  // namespace culprit
