#include "report/render/render_sarif.h"

#include <cctype>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/summary.h"
#include "report/render/source_place.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

using Json = nlohmann::ordered_json;

// The rules: leaks by cause, in the order of Cause; then errors by type, in this order.
constexpr format::ErrorType kErrorTypes[] = {format::ErrorType::kDoubleFree, format::ErrorType::kInvalidFree,
                                             format::ErrorType::kMismatchedFree, format::ErrorType::kFailedFree};
constexpr std::size_t kLeakRuleCount = std::size(kCauses);

// A path as a URI reference: characters with a meaning in RFC 3986 are escaped.
std::string uri(const std::string& path) {
  std::string text = !path.empty() && path[0] == '/' ? "file://" : "";
  for (const char c : path) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || std::string("/-._~").find(c) != std::string::npos) {
      text += c;
    } else {
      char escape[4];
      std::snprintf(escape, sizeof(escape), "%%%02X", byte);
      text += escape;
    }
  }
  return text;
}

Json location_json(const Frame& frame) {
  Json one;
  if (!frame.file.empty()) {
    one["physicalLocation"]["artifactLocation"]["uri"] = uri(frame.file);
    if (frame.line != 0) one["physicalLocation"]["region"]["startLine"] = frame.line;
  }
  one["logicalLocations"] = Json::array({{{"fullyQualifiedName", frame_function(frame)}, {"kind", "function"}}});
  return one;
}

class Result {
 public:
  Result(const std::string& rule, std::size_t rule_index, const std::string& text, const ResolvedStack& stack) {
    json_["ruleId"] = rule;
    json_["ruleIndex"] = rule_index;
    json_["level"] = "error";
    json_["message"]["text"] = text;
    json_["locations"] = Json::array();
    if (const Frame* frame = place_of(&stack)) json_["locations"].push_back(location_json(*frame));
    if (stack.frames.empty()) return;
    Json frames = Json::array();
    for (const Frame* frame : stack.frames) {
      Json one = {{"location", location_json(*frame)}};
      if (frame->module != nullptr) one["module"] = frame->module->name;
      frames.push_back(std::move(one));
    }
    json_["stacks"] = Json::array({{{"message", {{"text", "allocated"}}}, {"frames", std::move(frames)}}});
  }

  void relate(const std::string& text, const ResolvedStack* stack) {
    const Frame* frame = place_of(stack);
    if (frame == nullptr) return;
    Json one = {{"id", related_.size() + 1}};
    one.update(location_json(*frame));
    one["message"]["text"] = text;
    related_.push_back(std::move(one));
  }

  Json& json() { return json_; }
  Json finish() {
    if (!related_.empty()) json_["relatedLocations"] = related_;
    return std::move(json_);
  }

 private:
  Json json_;
  Json related_ = Json::array();
};

void relate_evidence(const Evidence& evidence, Result* result) {
  const std::string text = functions_of(evidence.type).place(evidence);
  if (!text.empty()) result->relate(text, evidence.stack);
  result->relate("caught here", evidence.caught);
}

Json leak_json(const Group& group, const MemoryWords& words) {
  const auto rule = static_cast<std::size_t>(group.cause);
  std::string text = format_bytes(group.bytes) + " in " + plural(group.count, "allocation", "allocations") + " (" +
                     group.api + ", " + kind_name(group.kind) + ") " + words.fate + ": " + cause_name(group.cause) +
                     ".";
  const std::string hint = hint_for(group, words.may_be_freed);
  if (!hint.empty()) text += " Hint: " + hint + ".";
  Result result(cause_name(group.cause), rule, text, *group.stack);
  for (const Evidence& evidence : group.evidence) relate_evidence(evidence, &result);
  result.json()["partialFingerprints"]["culprit/v1"] = group.id;
  if (group.comparison == Comparison::kNew) result.json()["baselineState"] = "new";
  if (group.comparison == Comparison::kGrown) result.json()["baselineState"] = "updated";
  if (group.comparison == Comparison::kKnown) result.json()["baselineState"] = "unchanged";
  result.json()["properties"] = {{"bytes", group.bytes}, {"count", group.count}};
  return result.finish();
}

Json error_json(const ErrorGroup& error) {
  std::size_t rule = 0;
  while (rule + 1 < std::size(kErrorTypes) && kErrorTypes[rule] != error.type) ++rule;
  const std::string text = error.api + " returned " + error.code_name + ", " + plural(error.count, "time", "times") +
                           ": " + error_type_name(error.type) + ".";
  Result result(std::string("error/") + error_type_name(error.type), kLeakRuleCount + rule, text, *error.stack);
  if (result.json().contains("stacks")) result.json()["stacks"][0]["message"]["text"] = "called";
  result.relate("allocated here", error.allocation_stack);
  result.relate("freed first here", error.free_stack);
  return result.finish();
}

Json rules_json() {
  Json rules = Json::array();
  for (const Cause cause : kCauses)
    rules.push_back({{"id", cause_name(cause)}, {"shortDescription", {{"text", row_of(cause).sentence}}}});
  for (const format::ErrorType type : kErrorTypes) {
    rules.push_back({{"id", std::string("error/") + error_type_name(type)},
                     {"shortDescription",
                      {{"text", std::string("A free that the driver refused: ") + error_type_name(type) + "."}}}});
  }
  return rules;
}

Json run_json(const Report& report, std::size_t number, const RenderOptions& options) {
  Json run;
  run["tool"]["driver"] = {{"name", "culprit"}, {"rules", rules_json()}};
  // Uploads with the same id replace each other, so the id must not contain the pid.
  run["automationDetails"]["id"] =
      "culprit/" + std::string(base_name(report.process.executable)) + "/" + std::to_string(number);
  Json invocation;
  std::string command;
  for (const std::string& word : report.process.command) command += (command.empty() ? "" : " ") + word;
  if (!command.empty()) invocation["commandLine"] = command;
  invocation["executionSuccessful"] = is_complete(report);
  invocation["processId"] = report.process.pid;
  if (!report.process.host.empty()) invocation["machine"] = report.process.host;
  for (const std::string& reason : reasons_not_known(report)) {
    invocation["toolExecutionNotifications"].push_back(
        {{"level", "error"}, {"message", {{"text", "Not known whether all memory was freed: " + reason}}}});
  }
  for (const FailedAllocation& failed : report.failed_allocations) {
    invocation["toolExecutionNotifications"].push_back(
        {{"level", "warning"}, {"message", {{"text", failed_allocation_text(failed)}}}});
  }
  for (const std::string& note : report.notes) {
    invocation["toolExecutionNotifications"].push_back({{"level", "note"}, {"message", {{"text", note}}}});
  }
  run["invocations"] = Json::array({std::move(invocation)});
  run["results"] = Json::array();
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict))
      run["results"].push_back(leak_json(group, words_of(report, group.cause)));
  }
  for (const ErrorGroup& error : report.errors) run["results"].push_back(error_json(error));
  return run;
}

}  // namespace

void render_sarif(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  Json log;
  log["$schema"] = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";
  log["version"] = "2.1.0";
  log["runs"] = Json::array();
  for (const Report& report : reports) log["runs"].push_back(run_json(report, log["runs"].size() + 1, options));
  out << with_printable_strings(log.dump(2, ' ', false, Json::error_handler_t::replace)) << "\n";
}

}  // namespace culprit::report
