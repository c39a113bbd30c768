#include "report/select/baseline.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "report/base/json_input.h"
#include "report/base/output_file.h"
#include "report/base/printable.h"
#include "report/cuda/kinds.h"
#include "report/model/report.h"
#include "report/model/summary.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

constexpr char kSchema[] = "culprit.baseline/1";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw FileError(path + ": " + why + "; culprit report --write-baseline makes one");
}

std::uint64_t number_of(const Json& leak, const char* key, const std::string& path) {
  const auto at = leak.find(key);
  if (at == leak.end() || !at->is_number_unsigned())
    refuse(path, std::string("no baseline: a leak's \"") + key + "\" is no whole number");
  return at->get<std::uint64_t>();
}

std::string text_of(const Json& object, const char* key, const std::string& path) {
  const auto at = object.find(key);
  if (at == object.end()) return {};
  if (!at->is_string()) refuse(path, std::string("no baseline: \"") + key + "\" is no text");
  return at->get<std::string>();
}

bool is_id(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string where(const Group& group) {
  const Frame* frame = group.stack->caller;
  if (frame == nullptr && !group.stack->frames.empty()) frame = group.stack->frames.front();
  return place_without_line(frame);
}

std::string quoted(const std::string& text) {
  return with_escapes(Json(text).dump(-1, ' ', false, Json::error_handler_t::replace));
}

std::string text_of(const Baseline& baseline) {
  std::string text =
      std::string("{\"schema\": \"") + kSchema + "\",\n \"comment\": " + quoted(baseline.comment) + ",\n \"leaks\": [";
  bool first = true;
  for (const auto& [id, leak] : baseline.leaks) {
    text += first ? "\n" : ",\n";
    first = false;
    text += "  {\"id\": " + quoted(id) + ", \"bytes\": " + std::to_string(leak.bytes) +
            ", \"count\": " + std::to_string(leak.count) + ", \"kind\": " + quoted(leak.kind) +
            ", \"cause\": " + quoted(leak.cause) + ", \"api\": " + quoted(leak.api) +
            ", \"where\": " + quoted(leak.where) + ", \"comment\": " + quoted(leak.comment) + "}";
  }
  return text + (first ? "]}\n" : "\n ]}\n");
}

}  // namespace

std::string place_without_line(const Frame* frame) {
  if (frame == nullptr) return "(stack not recorded)";
  const std::string module = frame->module != nullptr ? frame->module->name : "";
  if (frame->function.empty()) return module;
  return module.empty() ? frame->function : frame->function + " in " + module;
}

Baseline read_baseline(const std::string& path) {
  std::string problem;
  const Json json = read_json(path, nullptr, &problem);
  if (!problem.empty()) refuse(path, "no baseline: " + problem);
  if (!json.is_object() || !json.contains("schema") || json["schema"] != kSchema)
    refuse(path, std::string("no baseline: its \"schema\" is not \"") + kSchema + "\"");
  const auto leaks = json.find("leaks");
  if (leaks == json.end() || !leaks->is_array()) refuse(path, "no baseline: it has no list \"leaks\"");
  Baseline baseline;
  baseline.comment = text_of(json, "comment", path);
  for (const Json& one : *leaks) {
    if (!one.is_object()) refuse(path, "no baseline: one of its \"leaks\" is no object");
    const std::string id = text_of(one, "id", path);
    if (!is_id(id)) refuse(path, "no baseline: the id " + quoted(id) + " is not 16 hex digits");
    BaselineLeak leak;
    leak.bytes = number_of(one, "bytes", path);
    leak.count = number_of(one, "count", path);
    leak.kind = text_of(one, "kind", path);
    leak.cause = text_of(one, "cause", path);
    leak.api = text_of(one, "api", path);
    leak.where = text_of(one, "where", path);
    leak.comment = text_of(one, "comment", path);
    if (!baseline.leaks.emplace(id, std::move(leak)).second) refuse(path, "no baseline: the id " + id + " comes twice");
  }
  return baseline;
}

Baseline baseline_of(const std::vector<Report>& reports, bool strict) {
  Baseline baseline;
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      BaselineLeak& leak = baseline.leaks[group.id];
      leak.bytes += group.bytes;
      leak.count += group.count;
      leak.kind = kind_name(group.kind);
      leak.cause = cause_name(group.cause);
      leak.api = group.api;
      leak.where = where(group);
    }
  }
  return baseline;
}

void write_baseline(const std::string& path, Baseline baseline) {
  if (::access(path.c_str(), F_OK) == 0) {
    const Baseline old = read_baseline(path);
    baseline.comment = old.comment;
    for (auto& [id, leak] : baseline.leaks) {
      const auto known = old.leaks.find(id);
      if (known != old.leaks.end()) leak.comment = known->second.comment;
    }
  }
  OutputFile file(path);
  file.stream() << text_of(baseline);
  file.commit();
}

void compare(const Baseline& baseline, const std::string& path, const Growth& allowed, bool strict,
             std::vector<Report>* reports) {
  const Baseline now = baseline_of(*reports, strict);
  for (Report& report : *reports) {
    report.baseline = BaselineResult();
    report.baseline->path = path;
    for (Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      const auto before = baseline.leaks.find(group.id);
      if (before == baseline.leaks.end()) {
        group.comparison = Comparison::kNew;
        ++report.baseline->added;
        continue;
      }
      group.baseline_bytes = before->second.bytes;
      if (has_grown(before->second.bytes, now.leaks.at(group.id).bytes, allowed)) {
        group.comparison = Comparison::kGrown;
        ++report.baseline->grown;
      } else {
        group.comparison = Comparison::kKnown;
        ++report.baseline->known;
      }
    }
  }
  if (reports->empty()) return;
  for (const auto& [id, leak] : baseline.leaks) {
    if (now.leaks.count(id) == 0) reports->back().baseline->gone.push_back(id);
  }
}

const char* comparison_name(Comparison comparison) {
  switch (comparison) {
    case Comparison::kNew:
      return "new";
    case Comparison::kGrown:
      return "grown";
    case Comparison::kKnown:
      return "known";
    case Comparison::kNone:
      break;
  }
  return "none";
}

}  // namespace culprit::report
