#include "report/screen/detail_picture.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/render/html/source_lines.h"
#include "report/render/text/group_text.h"
#include "report/watch/watch_result.h"

namespace culprit::report {
namespace {

constexpr double kMib = 1 << 20;

void add_source(const Report& report, const Frame& frame, std::vector<PictureLine>* lines) {
  if (frame.file.empty() || frame.line == 0) return;
  // A stranger's dump must not choose files of this machine.
  SourceLines sources({"", report.process.working_directory, {}, report.process.of_this_machine},
                      report.process.start_realtime_ns);
  sources.want(frame.file, frame.line);
  const std::vector<SourceFile> files = sources.read();
  lines->push_back({});
  if (files.empty()) {
    lines->push_back({{"   source     " + printable(frame.file) + " is not here", Style::kFaint}});
    return;
  }
  const SourceFile& file = files.front();
  const std::string changed = file.changed ? " (has changed since the program began)" : "";
  lines->push_back({{"   source     " + printable(file.path) + changed, Style::kPlain}});
  for (const SourceBlock& block : file.blocks) {
    unsigned number = block.first;
    for (const std::string& text : block.lines) {
      char start[32];
      std::snprintf(start, sizeof(start), "%s%6u  ", number == frame.line ? "   >" : "    ", number);
      std::string code;
      for (const char c : text) code += c == '\t' ? std::string(4, ' ') : std::string(1, c);
      lines->push_back({{start + printable(code), number == frame.line ? Style::kTitle : Style::kFaint}});
      ++number;
    }
  }
}

}  // namespace

std::string change_words(std::int64_t bytes) {
  if (bytes == 0) return "0";
  return (bytes > 0 ? "+" : "-") + format_bytes(static_cast<std::uint64_t>(std::llabs(bytes)));
}

std::string rate_words(double bytes_per_minute) {
  const double mib = bytes_per_minute / kMib;
  if (std::fabs(mib) < 0.005) return "0";
  char text[32];
  std::snprintf(text, sizeof(text), std::fabs(mib) < 100 ? "%+.2f" : "%+.0f", mib);
  return text;
}

Style change_style(double change) { return change > 0 ? Style::kBad : change < 0 ? Style::kGood : Style::kPlain; }

std::vector<PictureLine> detail_lines(const LiveRow& row, std::size_t columns) {
  std::vector<PictureLine> lines;
  const GroupedRow& shown = *row.row;
  lines.push_back({{shown.text, Style::kTitle}});
  lines.push_back({{"process " + std::to_string(row.process->pid) + " " + row.process->name, Style::kPlain}});
  lines.push_back({{"live " + format_bytes(shown.total.bytes) + " in " +
                        plural(shown.total.allocations, "allocation", "allocations"),
                    Style::kPlain}});
  PictureLine changes = {{"change ", Style::kPlain},
                         {change_words(row.since_start), change_style(static_cast<double>(row.since_start))},
                         {" since start", Style::kPlain}};
  if (row.since_mark) {
    changes.push_back({" · ", Style::kFaint});
    changes.push_back({change_words(*row.since_mark), change_style(static_cast<double>(*row.since_mark))});
    changes.push_back({" since m", Style::kPlain});
  }
  if (row.per_minute) {
    changes.push_back({" · ", Style::kFaint});
    changes.push_back({rate_words(*row.per_minute), change_style(*row.per_minute)});
    changes.push_back({" MiB/min", Style::kPlain});
  }
  lines.push_back(std::move(changes));
  if (row.oldest_seconds) lines.push_back({{"oldest " + long_time_text(*row.oldest_seconds) + " ago", Style::kPlain}});
  const Group& group = *shown.largest;
  if (shown.total.groups > 1)
    lines.push_back({{"the largest of its " + std::to_string(shown.total.groups) + " stacks:", Style::kFaint}});
  RenderOptions options;
  options.columns = columns;
  options.strict = true;
  std::ostringstream text;
  render_group(*row.process->report, group, 1, options, text);
  std::istringstream parts(text.str());
  for (std::string line; std::getline(parts, line);) lines.push_back({{printable(line), Style::kPlain}});
  const Frame* const place = group.stack == nullptr ? nullptr : naming_frame(*group.stack);
  if (place != nullptr) add_source(*row.process->report, *place, &lines);
  return lines;
}

std::vector<PictureLine> help_lines() {
  static constexpr const char* kRows[][2] = {
      {"up, down, k, j", "choose a row; page up, page down, home, end"},
      {"enter", "open the row: its stack and source; esc closes it"},
      {"o, O", "sort by the next column, by the one before"},
      {"r", "turn the order round"},
      {"g, G", "group by the next of stack, line, function, library, thread, device, cause, mark"},
      {"/", "show only rows with these words: enter keeps them, esc shows all rows again"},
      {"m", "count changes from now on, too: the column SINCE M"},
      {"tab", "show the next process alone, then all of them again"},
      {"p", "the processes; enter shows one alone, a attaches to one without culprit"},
      {"s", "save a snapshot of the process's dump here"},
      {"space", "stop and go on reading"},
      {"q", "quit"},
  };
  static constexpr const char* kNotes[] = {
      "LIVE is what was allocated and not freed, with what caches keep.",
      "MiB/MIN is the median slope (Theil-Sen) of the last 30 looks.",
      "The line of blocks goes from its lowest to its highest value, one look a block.",
      "The bar is what is in use on the GPU, by NVML where there is one:",
      "# allocated  = kept by caches  : the driver's own  o other processes",
      "When top was killed by SIGKILL, the command reset gives the terminal its echo back.",
  };
  std::vector<PictureLine> lines;
  for (const auto& row : kRows) {
    std::string key = row[0];
    key.resize(16, ' ');
    lines.push_back({{key, Style::kTitle}, {row[1], Style::kPlain}});
  }
  lines.push_back({});
  for (const char* note : kNotes) lines.push_back({{note, Style::kPlain}});
  return lines;
}

}  // namespace culprit::report
