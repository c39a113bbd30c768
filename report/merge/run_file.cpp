#include "report/merge/run_file.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "report/base/clock.h"
#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/json_input.h"
#include "report/base/json_output.h"
#include "report/base/output_file.h"
#include "report/base/random_text.h"
#include "report/dump/side_files.h"

namespace culprit::report {
namespace {

using RunJson = nlohmann::ordered_json;
using Input = nlohmann::json;

constexpr char kSchema[] = "culprit.run/1";
constexpr std::size_t kIdDigits = 32;
constexpr std::uint64_t kMostFileBytes = 256 << 20;

// The objects of a list; throws `damaged` where there is no such list, or another element.
template <typename Use>
void for_each_in(const Input& json, const char* name, const FileError& damaged, Use use) {
  const auto at = json.find(name);
  if (at == json.end() || !at->is_array()) throw FileError(damaged);
  for (const Input& one : *at) {
    if (!one.is_object()) throw FileError(damaged);
    use(one);
  }
}

RunJson json_of(const RunRecord& run) {
  RunJson json = {{"schema", kSchema},          {"id", run.id},
                  {"ended", run.ended},         {"command", run.command},
                  {"host", run.host},           {"start_realtime_ns", run.start_realtime_ns},
                  {"whole_job", run.whole_job}, {"failure", run.failure.empty() ? RunJson() : RunJson(run.failure)}};
  RunJson end;
  if (run.end) {
    const auto& [name_space, pid, ticks] = run.end->child.process;
    end = {{"pid", pid},
           {"pid_namespace", name_space},
           {"start_time_ticks", ticks},
           {"boot_id", run.end->boot_id},
           {"exit_code", run.end->child.signalled ? RunJson() : RunJson(run.end->child.code)},
           {"signal", run.end->child.signalled ? RunJson(run.end->child.code) : RunJson()}};
  }
  json["end"] = end;
  json["dumps"] = RunJson::array();
  for (const DumpOfRun& dump : run.dumps)
    json["dumps"].push_back({{"path", dump.path}, {"pid", dump.pid}, {"start_realtime_ns", dump.start_realtime_ns}});
  json["without_dump"] = RunJson::array();
  for (const ProcessWithoutDump& process : run.without_dump) {
    json["without_dump"].push_back({{"pid", process.pid},
                                    {"program", process.program},
                                    {"reason", process.reason},
                                    {"tells_deed", process.tells_deed}});
  }
  json["notes"] = run.notes;
  json["lives_on"] = run.lives_on.empty() ? RunJson() : RunJson(run.lives_on);
  return json;
}

}  // namespace

std::string new_run_id() {
  const std::string id = random_text(kIdDigits);
  return id.empty() ? std::to_string(realtime_ns()) : id;
}

void write_run_file(const std::string& folder, const RunRecord& run) {
  OutputFile file((std::filesystem::path(folder) / run_file_name(run.id)).string());
  file.stream() << json_text(json_of(run), 1) << "\n";
  file.commit();
}

RunRecord read_run_file(const std::string& path, const std::string& id) {
  const FileError damaged(path + ": is damaged");
  const InputFile input = open_input(path);
  if (input.file.is_open() && input.bytes > kMostFileBytes) throw FileError(damaged);
  const Input json = parse_json(read_input(input, path));
  if (!json.is_object() || text_of(json, "schema") != kSchema || text_of(json, "id") != id) throw FileError(damaged);
  RunRecord run;
  run.id = id;
  run.ended = flag_of(json, "ended");
  run.host = text_of(json, "host");
  run.start_realtime_ns = number_of(json, "start_realtime_ns");
  run.whole_job = flag_of(json, "whole_job");
  const auto command = json.find("command");
  if (command != json.end() && command->is_array()) {
    for (const Input& word : *command) run.command.push_back(word.is_string() ? word.get<std::string>() : "");
  }
  run.failure = text_of(json, "failure");
  run.lives_on = text_of(json, "lives_on");
  const auto notes = json.find("notes");
  if (notes != json.end() && notes->is_array()) {
    for (const Input& note : *notes) run.notes.push_back(note.is_string() ? note.get<std::string>() : "");
  }
  if (!run.ended) return run;
  const auto end = json.find("end");
  if (end == json.end()) throw FileError(damaged);
  if (end->is_object()) {
    const bool signalled = end->contains("signal") && !(*end)["signal"].is_null();
    run.end =
        EndOfRun{{{number_of(*end, "pid_namespace"), static_cast<std::uint32_t>(number_of(*end, "pid")),
                   number_of(*end, "start_time_ticks")},
                  signalled,
                  static_cast<int>(std::min<std::uint64_t>(number_of(*end, signalled ? "signal" : "exit_code"), 255))},
                 text_of(*end, "boot_id")};
  }
  for_each_in(json, "dumps", damaged, [&](const Input& one) {
    run.dumps.push_back(
        {text_of(one, "path"), static_cast<std::uint32_t>(number_of(one, "pid")), number_of(one, "start_realtime_ns")});
  });
  for_each_in(json, "without_dump", damaged, [&](const Input& one) {
    run.without_dump.push_back({static_cast<int>(std::min<std::uint64_t>(number_of(one, "pid"), 1 << 30)),
                                text_of(one, "program"), text_of(one, "reason"), flag_of(one, "tells_deed")});
    if (run.without_dump.back().reason.empty()) throw FileError(damaged);
  });
  return run;
}

Report report_without_dump(int pid, const std::string& program, const std::string& reason) {
  Report report;
  report.process.pid = static_cast<std::uint32_t>(pid);
  report.process.executable = program;
  report.dropped.reason = reason;
  return report;
}

Report report_of_deed(int pid, const std::string& program, const std::string& deed) {
  Report report = report_without_dump(pid, program, deed);
  report.dropped.reason_tells_deed = true;
  return report;
}

std::vector<ProcessWithoutDump> processes_without_dump(const std::vector<Report>& reports) {
  std::vector<ProcessWithoutDump> list;
  list.reserve(reports.size());
  for (const Report& report : reports) {
    list.push_back({static_cast<int>(report.process.pid), report.process.executable, report.dropped.reason,
                    report.dropped.reason_tells_deed});
  }
  return list;
}

Report report_of(const ProcessWithoutDump& process) {
  Report report = report_without_dump(process.pid, process.program, process.reason);
  report.dropped.reason_tells_deed = process.tells_deed;
  return report;
}

}  // namespace culprit::report
