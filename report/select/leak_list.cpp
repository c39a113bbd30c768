#include "report/select/leak_list.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/shell_words.h"
#include "report/findings/finding.h"
#include "report/judge/fingerprint.h"
#include "report/judge/load_report.h"
#include "report/merge/merged_file.h"
#include "report/merge/report_merger.h"
#include "report/merge/run_knowledge.h"
#include "report/model/not_recorded.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/select/keeper_list.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

constexpr char kReport[] = "culprit.report/1";
constexpr char kReports[] = "culprit.reports/1";
constexpr char kBaseline[] = "culprit.baseline/1";

// Owns the frames read from a JSON report.
struct ReadFrames {
  std::deque<Frame> frames;
  std::deque<Module> modules;
  std::unordered_map<std::string, const Module*> known;
  std::size_t most = 0;  // frames that the text can have

  const Module* module(const std::string& path) {
    if (path.empty()) return nullptr;
    const auto [at, added] = known.try_emplace(path);
    if (added) {
      modules.emplace_back();
      modules.back().path = path;
      modules.back().name = base_name(path);
      at->second = &modules.back();
    }
    return at->second;
  }
};

std::uint64_t offset_of(const Json& frame) {
  const std::string text = frame.value("offset", "0x0");
  return std::strtoull(text.c_str(), nullptr, 16);
}

// A frame of culprit is longer, but "{}" would make ten million frames of a file that is mailed around.
constexpr std::size_t kShortestFrame = 16;

const Frame* read_frame(const Json& from, ReadFrames* into) {
  if (into->frames.size() == into->most) throw std::length_error("more frames than text");
  Frame frame;
  frame.function = from.value("function", "");
  frame.file = from.value("file", "");
  frame.line = from.value("line", 0U);
  frame.module = into->module(from.value("module", ""));
  frame.offset = offset_of(from);
  frame.inlined = from.value("inlined", false);
  frame.python = from.value("language", "native") == "python";
  frame.approximate = from.value("approximate", false);
  frame.symbol_offset = from.value("symbol_offset", std::uint64_t{0});
  into->frames.push_back(std::move(frame));
  return &into->frames.back();
}

// Throws Json::exception when a member is missing or has another type.
void read_leaks(const Json& report, bool strict, ReadFrames* frames, LeakList* list) {
  if (report.at("schema") != kReport)
    throw FileError(list->path + ": one of its \"reports\" is no \"" + std::string(kReport) + "\"");
  const Json summary = report.value("summary", Json::object());
  for (const Json& reason : summary.value("not_known", Json::array())) list->not_known.push_back(reason);
  if (list->not_known.empty() && !summary.value("complete", true))
    list->not_known.emplace_back("the recording was not complete");
  const bool old_ids = report.value("id_rule", std::uint64_t{1}) != kIdRule;
  for (const Json& one : report.at("leaks")) {
    const std::string cause = one.at("cause");
    if (cause == cause_name(Cause::kCached) && !strict) continue;
    ListedLeak& listed = list->leaks[one.at("id").get<std::string>()];
    listed.leak.add(one.at("bytes").get<std::uint64_t>(), one.at("count").get<std::uint64_t>(), cause);
    listed.leak.kind = one.at("kind");
    listed.leak.old_id = old_ids;
    ResolvedStack stack;
    for (const Json& frame : one.at("stack")) stack.frames.push_back(read_frame(frame, frames));
    set_place(stack, one.at("api"), &listed.leak);
    if (listed.frames.empty()) listed.frames = std::move(stack.frames);
  }
}

// Leaves the list without findings when the report has no member of them.
void read_findings(const Json& report, LeakList* list) {
  const auto findings = report.find("findings");
  if (findings == report.end()) list->findings.reset();
  if (!list->findings) return;
  for (const Json& one : *findings) {
    if (one.at("gate") == "not-known") continue;
    const Json& where = one.at("where");
    list->findings->push_back(
        {one.at("finding"), one.at("title"), one.at("text"), where.is_null() ? "" : where.get<std::string>()});
  }
}

LeakList list_of_reports(const std::string& path, const Json& json, std::size_t bytes, bool strict) {
  LeakList list;
  list.path = path;
  list.source = "report";
  const auto frames = std::make_shared<ReadFrames>();
  frames->most = bytes / kShortestFrame + 1;
  list.owners.push_back(frames);
  list.findings.emplace();
  list.keepers.emplace();
  const auto read = [&](const Json& report) {
    read_leaks(report, strict, frames.get(), &list);
    read_findings(report, &list);
    for (Keeper& keeper : keepers_of_summary(report.value("summary", Json::object())))
      list.keepers->push_back(std::move(keeper));
  };
  try {
    if (json.at("schema") == kReport) {
      read(json);
    } else {
      for (const Json& one : json.at("reports")) read(one);
      const std::string verdict = json.value("summary", Json::object()).value("verdict", "clean");
      if (list.not_known.empty() && verdict == verdict_name(Verdict::kNotKnown))
        list.not_known.emplace_back("nothing was recorded");
    }
  } catch (const std::length_error& error) {
    throw FileError(path + ": a damaged JSON report: " + error.what());
  } catch (const Json::exception& error) {
    throw FileError(path + ": a damaged JSON report: " + error.what() + "; culprit report --format json writes one");
  }
  return list;
}

LeakList list_of_baseline(const std::string& path) {
  LeakList list;
  list.path = path;
  list.source = "baseline";
  Baseline baseline = read_baseline(path);
  if (baseline.knows_keepers) list.keepers = std::move(baseline.keepers);
  for (auto& [id, leak] : baseline.leaks) {
    list.leaks[id].leak = leak;
    list.leaks[id].leak.known_by = {{leak.where, leak.api}};
  }
  return list;
}

LeakList list_of_report(const Report& report, const char* source, bool strict) {
  LeakList list;
  list.path = report.dump_path;
  list.source = source;
  for (auto& [id, leak] : baseline_of({report}, strict).leaks) list.leaks[id].leak = leak;
  for (const Group& group : report.leaks) {
    const auto at = list.leaks.find(group.id);
    if (at != list.leaks.end()) at->second.frames = group.stack->frames;
  }
  list.not_known = reasons_not_known(report);
  list.notes = report.notes;
  list.findings.emplace();
  for (const Finding& finding : shown_findings(report, kNowhere, kAllFindings))
    list.findings->push_back({row_of(finding.kind).name, finding.title, finding.headline, where_of(finding)});
  list.keepers = keepers_of({&report});
  list.owners.push_back(report.stacks);
  return list;
}

// The report of a file, with what is known of its run.
LeakList joined_list(Report report, RunKnowledge* runs, bool judged, const char* source, bool strict) {
  std::vector<Report> reports;
  reports.push_back(std::move(report));
  runs->add_to(judged, &reports);
  LeakList list = list_of_report(reports.back(), source, strict);
  reports.pop_back();
  for (const Report& without_dump : reports) {
    for (std::string& reason : reasons_not_known(without_dump)) list.not_known.push_back(std::move(reason));
  }
  return list;
}

bool is_dump(const std::string& path) {
  char magic[sizeof(format::kMagic)] = {};
  return read_beginning(path, magic, sizeof(magic)) && std::memcmp(magic, format::kMagic, sizeof(magic)) == 0;
}

}  // namespace

std::uint64_t LeakList::bytes() const {
  std::uint64_t sum = 0;
  for (const auto& [id, listed] : leaks) sum += listed.leak.bytes;
  return sum;
}

std::uint64_t LeakList::count() const {
  std::uint64_t sum = 0;
  for (const auto& [id, listed] : leaks) sum += listed.leak.count;
  return sum;
}

LeakList read_leak_list(const std::string& path, const LoadOptions& options, bool judged) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error))
    throw FileError(path + ": a folder. Make one file of its dumps: culprit merge " + shell_path(path) +
                    " -o job.json");
  NamedDumps named;
  named.paths.push_back(path);
  RunKnowledge runs(named);
  if (is_dump(path)) {
    LoadOptions load = options;
    load.machine.ends_of_runs = runs.ends();
    return joined_list(load_with_progress(path, load), &runs, judged, "dump", options.judge.strict);
  }
  std::size_t bytes = 0;
  const Json json = read_json(path, &bytes);
  const Json schema = json.is_object() && json.contains("schema") ? json["schema"] : Json();
  if (schema == kBaseline) return list_of_baseline(path);
  if (schema == kMergedSchema) {
    Report job = read_merged_file(path, options.judge);
    job.missing_ranks = missing_ranks_of({&job}, "it was not merged");
    LeakList list = joined_list(std::move(job), &runs, judged, "merged", options.judge.strict);
    list.path = path;
    return list;
  }
  if (schema == kReport || schema == kReports) return list_of_reports(path, json, bytes, options.judge.strict);
  throw FileError(
      path +
      ": neither a dump, nor a report of culprit report --format json, nor a baseline, nor a file of culprit merge");
}

}  // namespace culprit::report
