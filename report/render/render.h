// Writes finished reports. One function per format; none of them decides anything.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "report/model/report_model.h"

namespace culprit::report {

struct RenderOptions {
  bool colours = false;
  bool resources = false;  // list streams, events, contexts, ... instead of one line with totals
  bool strict = false;     // cached memory counts
  bool all = false;        // all groups, not only the first of each list
  std::string group_by;    // function, library, thread, device, cause, mark, rank; empty: each stack apart
  bool at_peak = false;    // holders at the time of highest use, instead of leaks
  bool source = true;      // html: with the source lines around reported places, when the sources are found ...
  std::string sysroot;     // ... below this folder ...
  std::vector<std::string> source_dirs;  // ... or in one of these
  bool kept = true;                      // the dumps are kept, so that further commands can be suggested
};

// The number of groups per list that the text formats show unless all are asked for.
constexpr std::size_t kShownGroups = 10;

struct Sweep;
struct Diff;

void render_text(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// One report is an object of schema culprit.report/1; several are the list in an object of culprit.reports/1. Invalid
// UTF-8 is replaced.
void render_json(const std::vector<Report>& reports, std::ostream& out);

// The other formats; each file names the programs that read it. All of them show only what counts as a leak.
void render_markdown(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_junit(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_folded(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_pprof(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);
void render_sarif(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// One self-contained HTML page with the facts of render_json() and more (html_page.h).
void render_html(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out);

// Allocations that were made while a process was attached and are still live, by line, with their rate.
void render_survivors(const Report& report, const RenderOptions& options, std::ostream& out);

// Parts of the text report: live memory at an allocation failure with out of memory (only the last failure unless all
// are asked for; in a job for the first few processes), and at the peak of each device.
void render_failures(const Report& report, const RenderOptions& options, std::ostream& out);
void render_peaks(const Report& report, const RenderOptions& options, std::ostream& out);

// The leaks of one report as one line for each value of options.group_by: a part of the text report.
void render_grouped(const Report& report, const RenderOptions& options, std::ostream& out);

// The results of a sweep: as text, and as one object of schema culprit.sweep/1.
void render_sweep_text(const Sweep& sweep, const RenderOptions& options, std::ostream& out);
void render_sweep_json(const Sweep& sweep, std::ostream& out);

// The differences of two runs: as text, as the summary of a CI job, as an object of schema culprit.diff/1, as a page.
void render_diff_text(const Diff& diff, const RenderOptions& options, std::ostream& out);
void render_diff_markdown(const Diff& diff, const RenderOptions& options, std::ostream& out);
void render_diff_json(const Diff& diff, std::ostream& out);
void render_diff_html(const Diff& diff, std::ostream& out);

// One group, or one error, as in the text report, after an empty line.
void render_group(const Report& report, const Group& group, std::size_t number, const RenderOptions& options,
                  std::ostream& out);
void render_error(const Report& report, const ErrorGroup& error, std::size_t number, const RenderOptions& options,
                  std::ostream& out);

// One group, or one error, as an object of JSON text.
std::string group_as_json(const Group& group);
std::string error_as_json(const ErrorGroup& error);
std::string stack_as_json(const ResolvedStack& stack);

// "1.25 GiB", "11001 B": three significant digits.
std::string format_bytes(std::uint64_t bytes);

}  // namespace culprit::report
