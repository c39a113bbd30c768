#include "report/render/render_sarif.h"
#include "report/model/group_names.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <optional>

#include <unordered_map>

#include "report/base/packed_text.h"
#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/render/sarif_result.h"
#include "report/render/source_place.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// The limits of GitHub's code scanning ("SARIF support for code scanning"). A file with more is rejected.
constexpr std::size_t kMostRuns = 20;
constexpr std::size_t kMostResults = 25000;  // of a run
// Of the file, compressed with gzip: 10 MB, less some for another compressor than the one here.
constexpr std::size_t kMostPackedBytes = 9500000;
// Bad frees are taken before leaks, up to this part of each limit.
constexpr std::size_t kPartOfErrors = 4;

// The indentation of a run's members.
constexpr std::size_t kMembers = 6;

// The processes of one program.
struct Run {
  std::string program;
  std::vector<const Report*> reports;
  std::size_t invocations = 0;
  PackedText leaks;
  PackedText errors;
  std::size_t leak_count = 0;
  std::size_t error_count = 0;
  HiddenTotal leaks_left_out;
  std::size_t errors_left_out = 0;
};

std::size_t invocations_of(const Report& report) { return std::max<std::size_t>(1, report.job.size()); }

Json notification(const char* level, const std::string& text) {
  return {{"level", level}, {"message", {{"text", text}}}};
}

// Notifications fail nothing; what fails a job is decided by its --fail-on class.
Json finding_notification(const Finding& finding) {
  std::string text = sentence_of(finding);
  for (const std::string& line : lines_below(finding)) text += "; " + line;
  Json one = notification(severity_name(finding.severity), text);
  one["descriptor"]["id"] = std::string("finding/") + row_of(finding.kind).name;
  for (const FindingPlace& place : finding.places) {
    const Frame* frame = place_of(place.stack);
    if (frame == nullptr) continue;
    Json location = location_json(*frame);
    location["message"]["text"] = place.label;
    one["locations"].push_back(std::move(location));
  }
  return one;
}

// The invocation that a report describes; of a merged one the first process's.
Json first_invocation(const Report& report) {
  Json invocation;
  std::string command;
  for (const std::string& word : report.process.command) command += (command.empty() ? "" : " ") + word;
  if (!command.empty()) invocation["commandLine"] = command;
  invocation["executionSuccessful"] = is_complete(report);
  invocation["processId"] = report.process.pid;
  if (!report.process.host.empty()) invocation["machine"] = report.process.host;
  for (const std::string& reason : reasons_not_known(report)) {
    invocation["toolExecutionNotifications"].push_back(
        notification("error", "Not known whether all memory was freed: " + reason));
  }
  const std::string part = part_text(report.since_mark, report.before_mark);
  if (!part.empty())
    invocation["toolExecutionNotifications"].push_back(notification("warning", "A part of the run: " + part));
  const std::string share = recorded_share_text(report);
  if (!share.empty())
    invocation["toolExecutionNotifications"].push_back(notification("warning", "Recorded in part: " + share));
  const std::string not_searched = not_searched_text(report);
  if (!not_searched.empty())
    invocation["toolExecutionNotifications"].push_back(notification("warning", "Not searched: " + not_searched));
  for (const Finding& finding : shown_findings(report, kNowhere))
    invocation["toolExecutionNotifications"].push_back(finding_notification(finding));
  for (const std::string& note : report.notes)
    invocation["toolExecutionNotifications"].push_back(notification("note", note));
  return invocation;
}

Json invocations_json(const Run& run) {
  Json list = Json::array();
  for (const Report* report : run.reports) {
    const std::size_t first = list.size();
    const bool complete = is_complete(*report);
    list.push_back(first_invocation(*report));
    if (run.invocations > 1 && report->process.rank) list[first]["properties"]["rank"] = *report->process.rank;
    for (std::size_t i = 1; i < report->job.size(); ++i) {
      const JobProcess& process = report->job[i];
      Json one = {{"executionSuccessful", complete}, {"processId", process.pid}};
      if (!process.host.empty()) one["machine"] = process.host;
      if (process.rank) one["properties"]["rank"] = *process.rank;
      list.push_back(std::move(one));
    }
  }
  return list;
}

std::string left_out_text(const Run& run) {
  std::string what;
  if (run.leaks_left_out.groups != 0) {
    what = "the " + plural(run.leaks_left_out.groups, "smallest leak", "smallest leaks") + " (" +
           format_bytes(run.leaks_left_out.bytes) + " in " +
           plural(run.leaks_left_out.allocations, "allocation", "allocations") + ")";
  }
  if (run.errors_left_out != 0)
    what += (what.empty() ? "" : " and ") + plural(run.errors_left_out, "bad free", "bad frees");
  return "left out of the SARIF, of which code scanning takes 25,000 results in a run and 10 MB, compressed: " + what +
         " of " + (run.program.empty() ? "the program" : run.program) + "; --format json has everything";
}

// Chooses what the file contains, and writes it.
class Log {
 public:
  Log(const std::vector<Report>& reports, const RenderOptions& options) : options_(options) {
    for (const Report& report : reports) {
      Run& run = run_of(std::string(base_name(report.process.executable)));
      run.reports.push_back(&report);
      run.invocations += invocations_of(report);
    }
    // The part of the file that must be there; its text is made again when the file is written.
    PackedText heads;
    for (const Run& run : runs_) heads.append(indented_text(invocations_json(run), kMembers));
    head_bytes_ = heads.most_bytes();
    for (Run& run : runs_) take_errors(&run);
    take_leaks();
  }

  void write(std::ostream& out) {
    out << "{\n  \"$schema\": \"https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/"
           "sarif-schema-2.1.0.json\",\n  \"version\": \"2.1.0\",\n  \"runs\": [";
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      out << (i == 0 ? "\n" : ",\n");
      write_run(&runs_[i], out);
    }
    out << (runs_.empty() ? "]\n}\n" : "\n  ]\n}\n");
  }

 private:
  // The last run takes the programs that are too many.
  Run& run_of(const std::string& program) {
    for (Run& run : runs_) {
      if (run.program == program) return run;
    }
    if (runs_.size() == kMostRuns) {
      runs_.back().program = "other programs";
      return runs_.back();
    }
    runs_.emplace_back().program = program;
    return runs_.back();
  }

  bool fits(std::size_t bytes, std::size_t most) const {
    std::size_t sum = head_bytes_;
    for (const Run& run : runs_) sum += run.leaks.most_bytes() + run.errors.most_bytes();
    return sum + bytes <= most;
  }

  void take_errors(Run* run) {
    std::size_t invocation = 0;
    for (const Report* report : run->reports) {
      for (const ErrorGroup& error : report->errors) {
        text_ = run->error_count == 0 ? "" : ",\n";
        results_.append_error(*report, error, number(*run, invocation), &text_);
        if (run->error_count < kMostResults / kPartOfErrors && fits(text_.size(), kMostPackedBytes / kPartOfErrors)) {
          run->errors.append(with_printable_strings(text_));
          ++run->error_count;
        } else {
          ++run->errors_left_out;
        }
      }
      invocation += invocations_of(*report);
    }
  }

  // The largest leaks of all runs first.
  void take_leaks() {
    struct Candidate {
      const Report* report;
      const Group* group;
      std::size_t run;
      std::size_t invocation;
    };
    std::vector<Candidate> candidates;
    std::unordered_map<const Report*, GroupNames> names;
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      std::size_t invocation = 0;
      for (const Report* report : runs_[i].reports) {
        names.try_emplace(report, *report);
        for (const Group& group : report->leaks) {
          if (counts_as_leak(group, options_.strict)) candidates.push_back({report, &group, i, invocation});
        }
        invocation += invocations_of(*report);
      }
    }
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& left, const Candidate& right) {
      return left.group->bytes > right.group->bytes;
    });
    bool full = false;
    for (const Candidate& one : candidates) {
      Run& run = runs_[one.run];
      if (!full && run.leak_count + run.error_count < kMostResults) {
        text_ = run.leak_count == 0 ? "" : ",\n";
        const std::string name = names.at(one.report).of(*one.group);
        results_.append_leak(*one.report, *one.group, name, number(run, one.invocation), &text_);
        full = !fits(text_.size(), kMostPackedBytes);
        if (!full) {
          run.leaks.append(with_printable_strings(text_));
          ++run.leak_count;
          continue;
        }
      }
      run.leaks_left_out.add(*one.group);
    }
  }

  static std::optional<std::size_t> number(const Run& run, std::size_t invocation) {
    return run.invocations > 1 ? std::optional<std::size_t>(invocation) : std::nullopt;
  }

  void write_run(Run* run, std::ostream& out) {
    const std::string indent(kMembers, ' ');
    Json invocations = invocations_json(*run);
    if (run->leaks_left_out.groups + run->errors_left_out != 0) {
      const std::string text = left_out_text(*run);
      invocations[0]["toolExecutionNotifications"].push_back(notification("warning", text));
      if (options_.left_out != nullptr) options_.left_out->push_back(text);
    }
    const Json tool = {{"driver", {{"name", "culprit"}, {"rules", sarif_rules()}}}};
    // Uploads with the same id replace each other, so the id must not contain the pid.
    const Json id = {{"id", "culprit/" + run->program + "/1"}};
    out << "    {\n"
        << indent << "\"tool\": " << indented_text(tool, kMembers) << ",\n"
        << indent << "\"automationDetails\": " << with_printable_strings(indented_text(id, kMembers)) << ",\n"
        << indent << "\"invocations\": " << with_printable_strings(indented_text(invocations, kMembers)) << ",\n"
        << indent << "\"results\": [";
    const bool any = run->leak_count + run->error_count != 0;
    if (any) out << "\n";
    run->leaks.write(out);
    if (run->leak_count != 0 && run->error_count != 0) out << ",\n";
    run->errors.write(out);
    if (any) out << "\n" << indent;
    out << "]\n    }";
  }

  const RenderOptions& options_;
  SarifResults results_;
  std::deque<Run> runs_;
  std::size_t head_bytes_ = 0;
  std::string text_;
};

}  // namespace

void render_sarif(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  Log(reports, options).write(out);
}

}  // namespace culprit::report
