#include "report/select/baseline.h"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "report/base/json_input.h"
#include "report/base/json_output.h"
#include "report/base/output_file.h"
#include "report/base/printable.h"
#include "report/cuda/kinds.h"
#include "report/judge/fingerprint.h"
#include "report/keepers/keeper_growth.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/select/keeper_list.h"
#include "report/select/renewed_baseline.h"

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

bool is_exact_id(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// As culprit named a place while its ids were of the first rule.
std::string place_by_first_rule(const Frame* frame) {
  return frame != nullptr && frame->python ? frame->function : place_without_line(frame);
}

std::string quoted(const std::string& text) { return json_text(Json(text)); }

std::string lost_text(const std::string& id, const BaselineLeak& leak) {
  const std::string what = id + " (" + leak.api + ", " + leak.kind + ", " + leak.where + ")";
  const std::string why = leak.old_id ? " has an id of an older culprit, and no leak of this run is known by its place"
                                      : " leaked nothing in this run";
  return printable(what + why + ", so it is left out" +
                   (leak.comment.empty() ? "" : " with its comment \"" + leak.comment + "\""));
}

// "a list of 20" as "a list".
std::string without_lengths(const std::string& path) {
  constexpr std::string_view kOf = " of ";
  constexpr const char* kNumber = "0123456789,";
  std::string text = path;
  for (std::size_t at = text.find(kOf); at != std::string::npos; at = text.find(kOf, at)) {
    const std::size_t end = std::min(text.find_first_not_of(kNumber, at + kOf.size()), text.size());
    if (end == at + kOf.size()) {
      at = end;  // no number follows
    } else {
      text.erase(at, end - at);
    }
  }
  return text;
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
            ", \"where\": " + quoted(leak.where) + (leak.old_id ? "" : ", \"id_rule\": " + std::to_string(kIdRule)) +
            ", \"comment\": " + quoted(leak.comment) + "}";
  }
  text += first ? "]" : "\n ]";
  if (!baseline.knows_keepers) return text + "}\n";
  text += ",\n \"keepers\": [";
  first = true;
  for (const Keeper& keeper : baseline.keepers) {
    text += first ? "\n" : ",\n";
    first = false;
    text += "  {\"id\": " + quoted(keeper.id) + ", \"bytes\": " + std::to_string(keeper.bytes) +
            ", \"kind\": " + quoted(keeper_kind_name(keeper.kind)) +
            ", \"path\": " + quoted(without_lengths(keeper.path)) + "}";
  }
  return text + (first ? "]}\n" : "\n ]}\n");
}

}  // namespace

std::string place_without_line(const Frame* frame) {
  if (frame == nullptr) return "(stack not recorded)";
  const std::string module = frame->python              ? std::string(base_name(frame->file))
                             : frame->module != nullptr ? frame->module->name
                                                        : "";
  if (frame->function.empty()) return module;
  return module.empty() ? frame->function : frame->function + " in " + module;
}

void set_place(const ResolvedStack& stack, const std::string& api, BaselineLeak* leak) {
  const Frame* innermost = stack.frames.empty() ? nullptr : stack.frames.front();
  const Frame* caller = stack.caller != nullptr ? stack.caller : innermost;
  const std::string where = leak->old_id ? place_by_first_rule(caller) : place_without_line(naming_frame(stack));
  // Groups with one id may differ in these: the text must not depend on the order of the groups.
  if (leak->known_by.empty() || std::tie(where, api) < std::tie(leak->where, leak->api)) {
    leak->where = where;
    leak->api = api;
  }
  leak->known_by.emplace(where, api);
  // A baseline named the caller, and `culprit diff` of JSON reports the innermost frame.
  leak->known_by.emplace(place_by_first_rule(caller), api);
  leak->known_by.emplace(place_by_first_rule(innermost), api);
}

bool has_grown(const BaselineLeak& before, const BaselineLeak& now, const Growth& allowed) {
  return has_grown(before.bytes, now.bytes, allowed) || (allowed.counts && has_grown(before.count, now.count, allowed));
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
    if (!is_exact_id(id)) refuse(path, "no baseline: the id " + quoted(id) + " is not 16 hex digits");
    BaselineLeak leak;
    leak.bytes = number_of(one, "bytes", path);
    leak.count = number_of(one, "count", path);
    leak.kind = text_of(one, "kind", path);
    leak.cause = text_of(one, "cause", path);
    leak.api = text_of(one, "api", path);
    leak.where = text_of(one, "where", path);
    leak.comment = text_of(one, "comment", path);
    leak.old_id = !one.contains("id_rule");
    if (!leak.old_id && number_of(one, "id_rule", path) != kIdRule)
      refuse(path, "the id " + id + " is of a newer culprit (its \"id_rule\" is not " + std::to_string(kIdRule) + ")");
    if (!baseline.leaks.emplace(id, std::move(leak)).second) refuse(path, "no baseline: the id " + id + " comes twice");
  }
  const auto keepers = json.find("keepers");
  baseline.knows_keepers = keepers != json.end() && keepers->is_array();
  for (std::size_t i = 0; baseline.knows_keepers && i < keepers->size(); ++i) {
    baseline.keepers.push_back(keeper_of_json((*keepers)[i]));
    if (!is_exact_id(baseline.keepers.back().id)) refuse(path, "no baseline: the id of a keeper is not 16 hex digits");
  }
  return baseline;
}

Baseline baseline_of(const std::vector<Report>& reports, bool strict) {
  Baseline baseline;
  std::vector<const Report*> all;
  for (const Report& report : reports) {
    all.push_back(&report);
    baseline.knows_keepers = baseline.knows_keepers || !report.caches_inside.empty();
  }
  baseline.keepers = keepers_of(all);
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      BaselineLeak& leak = baseline.leaks[group.id];
      leak.add(group.bytes, group.count, cause_name(group.cause));
      leak.kind = kind_name(group.kind);
      set_place(*group.stack, group.api, &leak);
    }
  }
  return baseline;
}

std::vector<std::string> write_baseline(const std::string& path, Baseline baseline) {
  std::vector<std::string> lost;
  if (::access(path.c_str(), F_OK) == 0) {
    Baseline old = read_baseline(path);
    baseline.comment = old.comment;
    for (auto& [id, before] : renewed(std::move(old.leaks), baseline.leaks)) {
      const auto now = baseline.leaks.find(id);
      if (now != baseline.leaks.end()) {
        now->second.comment = before.comment;
      } else {
        lost.push_back(lost_text(id, before));
      }
    }
  }
  // The comments of the old one survive a full disk.
  OutputFile file(path);
  file.stream() << text_of(baseline);
  file.commit();
  return lost;
}

void compare(const Baseline& baseline, const std::string& path, const Growth& allowed, bool strict,
             std::vector<Report>* reports) {
  const Baseline now = baseline_of(*reports, strict);
  const BaselineLeaks known = renewed(baseline.leaks, now.leaks);
  for (Report& report : *reports) {
    report.baseline = BaselineResult();
    report.baseline->path = path;
    report.baseline->knows_keepers = baseline.knows_keepers;
    std::set<std::string_view> counted;
    for (Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      const std::uint64_t one = counted.insert(group.id).second ? 1 : 0;
      const auto before = known.find(group.id);
      if (before == known.end()) {
        group.comparison = Comparison::kNew;
        report.baseline->added += one;
        continue;
      }
      group.baseline_bytes = before->second.bytes;
      group.baseline_count = before->second.count;
      group.baseline_comment = before->second.comment;
      const bool grown = has_grown(before->second, now.leaks.at(group.id), allowed);
      group.comparison = grown ? Comparison::kGrown : Comparison::kKnown;
      (grown ? report.baseline->grown : report.baseline->known) += one;
    }
  }
  if (reports->empty()) return;
  BaselineResult& last = *reports->back().baseline;
  if (baseline.knows_keepers) {
    for (GrownKeeper& grown : grown_keepers(baseline.keepers, now.keepers)) {
      if (has_grown(grown.before, grown.now, allowed)) last.keepers.push_back(std::move(grown));
    }
  }
  for (const auto& [id, leak] : known) {
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
