#include "report/render/sarif_result.h"

#include <cctype>
#include <cstdio>
#include <iterator>
#include <nlohmann/json.hpp>

#include "report/base/words.h"
#include "report/causes/evidence_functions.h"
#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/merge/spread.h"
#include "report/model/frame_text.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/report.h"
#include "report/render/source_place.h"

namespace culprit::report {
namespace {

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

// One frame of `stacks`.
Json stack_frame_json(const Frame& frame) {
  Json one = {{"location", location_json(frame)}};
  if (frame.module != nullptr) one["module"] = frame.module->name;
  return one;
}

// "rank 3", "process 4242 on node7".
std::string process_text(const ProcessInfo& process) {
  if (process.rank) return "rank " + std::to_string(*process.rank);
  return "process " + std::to_string(process.pid) + (process.host.empty() ? "" : " on " + process.host);
}

// Writes a result member by member.
class Result {
 public:
  Result(FrameTexts* frames, std::string* out) : frames_(*frames), out_(*out) {
    out_.append(SarifResults::kIndent, ' ');
    out_ += '{';
  }

  void member(const char* key, const Json& value) {
    name(key);
    out_ += indented_text(value, kMembers);
  }

  void stack(const char* what, const ResolvedStack& stack) {
    Json locations = Json::array();
    if (const Frame* frame = place_of(&stack)) locations.push_back(location_json(*frame));
    member("locations", locations);
    if (stack.frames.empty()) return;
    name("stacks");
    const Json before = Json::array({{{"message", {{"text", what}}}, {"frames", Json::array()}}});
    const std::string around = indented_text(before, kMembers);
    const std::size_t end_of_frames = around.rfind("[]") + 1;
    out_.append(around, 0, end_of_frames);
    const std::size_t begin = out_.size();
    std::size_t shown = 0;
    for (const Frame* frame : stack.frames) {
      const std::string& text = frames_.of(frame);
      if (shown == SarifResults::kMostFrames || out_.size() + text.size() > begin + SarifResults::kMostFrameBytes)
        break;
      out_ += shown++ == 0 ? "\n" : ",\n";
      out_ += text;
    }
    frames_left_out_ = stack.frames.size() - shown;
    if (shown != 0) {
      out_ += '\n';
      out_.append(frames_.indent() - 2, ' ');
    }
    out_.append(around, end_of_frames);
  }

  void relate(const std::string& text, const ResolvedStack* stack) {
    const Frame* frame = place_of(stack);
    if (frame == nullptr) return;
    if (related_.size() + 1 >= SarifResults::kMostLocations) {
      ++related_left_out_;
      return;
    }
    Json one = {{"id", related_.size() + 1}};
    one.update(location_json(*frame));
    one["message"]["text"] = text;
    related_.push_back(std::move(one));
  }

  // Ends the result.
  void finish(std::optional<std::size_t> invocation, Json properties) {
    if (invocation) member("provenance", {{"invocationIndex", *invocation}});
    if (frames_left_out_ != 0) properties["framesLeftOut"] = frames_left_out_;
    if (related_left_out_ != 0) properties["relatedLocationsLeftOut"] = related_left_out_;
    if (!properties.is_null()) member("properties", properties);
    if (!related_.empty()) member("relatedLocations", related_);
    out_ += '\n';
    out_.append(SarifResults::kIndent, ' ');
    out_ += '}';
  }

 private:
  static constexpr std::size_t kMembers = SarifResults::kIndent + 2;

  void name(const char* key) {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    out_.append(kMembers, ' ');
    out_.append("\"").append(key).append("\": ");
  }

  FrameTexts& frames_;
  std::string& out_;
  Json related_ = Json::array();
  std::size_t frames_left_out_ = 0;
  std::size_t related_left_out_ = 0;
  bool first_ = true;
};

void relate_evidence(const Evidence& evidence, Result* result) {
  const std::string text = functions_of(evidence.type).place(evidence);
  if (!text.empty()) result->relate(text, evidence.stack);
  result->relate("caught here", evidence.caught);
}

// The processes of a leak, for a report or a run of several.
std::string where_text(const Report& report, const Group& group, bool several) {
  if (report.job.size() > 1 && !group.shares.empty()) {
    const SpreadText spread = spread_text(group, report.job);
    return " In " + spread.line + (spread.odd.empty() ? "" : "; " + spread.odd) + ".";
  }
  return several ? " In " + process_text(report.process) + "." : "";
}

}  // namespace

Json location_json(const Frame& frame) {
  Json one;
  if (!frame.file.empty()) {
    one["physicalLocation"]["artifactLocation"]["uri"] = uri(frame.file);
    if (frame.line != 0) one["physicalLocation"]["region"]["startLine"] = frame.line;
  }
  one["logicalLocations"] = Json::array({{{"fullyQualifiedName", frame_function(frame)}, {"kind", "function"}}});
  return one;
}

Json sarif_rules() {
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

// A frame stands in result.stacks[0].frames.
SarifResults::SarifResults() : frames_(stack_frame_json, kIndent + 8) {}

void SarifResults::append_leak(const Report& report, const Group& group, const std::string& name,
                               std::optional<std::size_t> invocation, std::string* out) {
  const MemoryWords& words = words_of(report, group.cause);
  std::string text = format_bytes(group.bytes) + " in " + plural(group.count, "allocation", "allocations") + " (" +
                     group.api + ", " + kind_name(group.kind) + ") " + words.fate + ": " + cause_name(group.cause) +
                     ".";
  const std::string hint = hint_for(group, words.may_be_freed);
  if (!hint.empty()) text += " Hint: " + hint + ".";
  text += where_text(report, group, invocation.has_value());
  Result result(&frames_, out);
  result.member("ruleId", cause_name(group.cause));
  result.member("ruleIndex", static_cast<std::size_t>(group.cause));
  result.member("level", "error");
  result.member("message", {{"text", text}});
  result.stack("allocated", *group.stack);
  for (const Evidence& evidence : group.evidence) relate_evidence(evidence, &result);
  result.member("partialFingerprints", {{"culprit/v1", name}});
  if (group.comparison == Comparison::kNew) result.member("baselineState", "new");
  if (group.comparison == Comparison::kGrown) result.member("baselineState", "updated");
  if (group.comparison == Comparison::kKnown) result.member("baselineState", "unchanged");
  Json properties = {{"bytes", group.bytes}, {"count", group.count}};
  if (report.job.size() > 1 && !group.shares.empty()) {
    std::vector<std::uint32_t> processes;
    for (const Share& share : group.shares) processes.push_back(share.process);
    properties["processes"] = processes_text(report.job, processes);
    if (invocation) invocation = *invocation + processes.front();
  }
  result.finish(invocation, std::move(properties));
}

void SarifResults::append_error(const Report& report, const ErrorGroup& error, std::optional<std::size_t> invocation,
                                std::string* out) {
  std::size_t rule = 0;
  while (rule + 1 < std::size(kErrorTypes) && kErrorTypes[rule] != error.type) ++rule;
  std::string text = error.api + " returned " + error.code_name + ", " + plural(error.count, "time", "times") + ": " +
                     error_type_name(error.type) + ".";
  // A merged report does not keep the process of a bad free.
  const bool known = report.job.size() <= 1;
  if (invocation && known) text += " In " + process_text(report.process) + ".";
  Result result(&frames_, out);
  result.member("ruleId", std::string("error/") + error_type_name(error.type));
  result.member("ruleIndex", kLeakRuleCount + rule);
  result.member("level", "error");
  result.member("message", {{"text", text}});
  result.stack("called", *error.stack);
  result.relate("allocated here", error.allocation_stack);
  result.relate("freed first here", error.free_stack);
  result.finish(known ? invocation : std::nullopt, Json());
}

}  // namespace culprit::report
