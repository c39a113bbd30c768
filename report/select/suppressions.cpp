#include "report/select/suppressions.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string_view>
#include <unordered_map>

#include "report/base/byte_size.h"
#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/select/keeper_list.h"

namespace culprit::report {
namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// A file with more rules, or with longer ones, was not written by hand or by --suggest-suppressions.
constexpr std::size_t kMostRules = 10000;
constexpr std::size_t kLongestPattern = 4096;
// Of wrong lines, that a message repeats.
constexpr std::size_t kMostProblems = 100;
constexpr std::size_t kLongestShown = 200;

bool is_cause(const std::string& name) {
  return std::any_of(std::begin(kCauses), std::end(kCauses), [&](Cause cause) { return name == cause_name(cause); });
}

bool is_id_or_sub_id(const std::string& text) {
  const auto is_hex = [](std::string_view digits) {
    return digits.find_first_not_of("0123456789abcdef") == std::string_view::npos;
  };
  const std::string_view all = text;
  if (all.size() == 16) return is_hex(all);
  return all.size() == 25 && all[16] == '/' && is_hex(all.substr(0, 16)) && is_hex(all.substr(17));
}

// "fake_cuda.py:12 Memory.__init__"
std::string place_of(const Frame& frame) {
  std::string text;
  if (frame.line > 0) text = std::string(base_name(frame.file)) + ":" + std::to_string(frame.line) + " ";
  if (!frame.function.empty()) return text + frame.function;
  return text + (frame.module != nullptr ? frame.module->name : "unknown code");
}

// The innermost frames of the program, as many as a reader needs to know a leak again.
std::string places_of(const ResolvedStack& stack) {
  constexpr int kShown = 3;
  std::string text;
  bool inside = stack.has_python || stack.caller == nullptr;
  int shown = 0;
  for (const Frame* frame : stack.frames) {
    inside |= frame == stack.caller;
    if (!inside || frame->python != stack.has_python) continue;
    text += (shown > 0 ? " < " : "") + place_of(*frame);
    if (++shown == kShown) break;
  }
  return text;
}

}  // namespace

std::string Suppressions::add(const std::string& text, const std::string& path, std::size_t line) {
  const std::string trim = trimmed(text);
  if (trim.empty() || trim.front() == '#') return {};
  const std::size_t colon = trim.find(':');
  if (colon == std::string::npos)
    return "no \"leak:\", \"id:\", \"module:\", \"cause:\", \"kind:\", \"keeper:\" or \"max-bytes:\" before it";
  const std::string type = trimmed(trim.substr(0, colon));
  Rule rule;
  rule.pattern = trimmed(trim.substr(colon + 1));
  rule.path = path;
  rule.line = line;
  if (rule.pattern.empty()) return "nothing stands behind \"" + std::string(cut_to_bytes(type, kLongestShown)) + ":\"";
  if (rule.pattern.size() > kLongestPattern)
    return "longer than " + std::to_string(kLongestPattern) + " characters, the most that a pattern can have";
  if (rules_.size() == kMostRules)
    return "more than " + std::to_string(kMostRules) + " rules: \"*\" in a pattern stands for many";
  if (type == "leak") {
    rule.what = Suppresses::kLeak;
  } else if (type == "module") {
    rule.what = Suppresses::kModule;
  } else if (type == "cause") {
    if (!is_cause(rule.pattern)) return "there is no cause \"" + rule.pattern + "\"";
    rule.what = Suppresses::kCause;
  } else if (type == "kind") {
    const std::vector<std::string> kinds = kind_names();
    if (std::find(kinds.begin(), kinds.end(), rule.pattern) == kinds.end())
      return "there is no kind \"" + rule.pattern + "\"";
    rule.what = Suppresses::kKind;
  } else if (type == "keeper") {
    rule.what = Suppresses::kKeeper;
  } else if (type == "id") {
    if (!is_id_or_sub_id(rule.pattern))
      return "an id has 16 hex digits, as in the report, and perhaps \"/\" and 8 more";
    rule.what = Suppresses::kId;
  } else if (type == "max-bytes") {
    if (rules_.empty() || rules_.back().path != path) return "there is no line above that it could limit";
    if (rules_.back().max_bytes) return "the line above has a limit already";
    rules_.back().max_bytes = parse_bytes(rule.pattern);
    return rules_.back().max_bytes ? "" : rule.pattern + " is no size, like 4096, 64K or 1.5GiB";
  } else {
    return "\"" + std::string(cut_to_bytes(type, kLongestShown)) +
           ":\" is not known; leak, id, module, cause, kind, keeper and max-bytes are";
  }
  rules_.push_back(std::move(rule));
  return {};
}

void Suppressions::read(const std::string& path) {
  std::istringstream file(read_input(path));
  std::string wrong;
  std::string text;
  std::size_t problems = 0;
  for (std::size_t line = 1; problems < kMostProblems && std::getline(file, text); ++line) {
    const std::string why = add(text, path, line);
    if (why.empty()) continue;
    ++problems;
    wrong += (wrong.empty() ? "" : "\n  ") + path + ":" + std::to_string(line) + ": " +
             printable(cut_to_bytes(trimmed(text), kLongestShown)) + ": " + printable(why);
  }
  if (!wrong.empty()) throw FileError("suppressions that cannot be understood:\n  " + wrong);
}

std::string Suppressions::text_of(const Rule& rule) {
  static constexpr const char* kNames[] = {"leak", "module", "cause", "kind", "id", "keeper"};
  return std::string(kNames[static_cast<int>(rule.what)]) + ":" + rule.pattern;
}

void Suppressions::apply(Report* report) {
  if (rules_.empty()) return;
  std::vector<HiddenTotal> hidden(rules_.size());
  std::vector<const SuppressionRule*> rules;
  for (const Rule& rule : rules_) rules.push_back(&rule);
  RuleSearch search(rules);
  for (std::vector<Group>* groups : {&report->leaks, &report->library, &report->resources}) {
    // Resources have no displayed cause.
    const bool memory = groups != &report->resources;
    std::unordered_map<std::string, std::uint64_t> bytes;
    for (const Group& group : *groups) bytes[group.id] += group.bytes;
    auto kept = groups->begin();
    for (Group& group : *groups) {
      const std::optional<std::uint32_t> rule = search.first(group, bytes.at(group.id), memory);
      if (rule) {
        rules_[*rule].used = true;
        hidden[*rule].add(group);
        continue;
      }
      if (&*kept != &group) *kept = std::move(group);
      ++kept;
    }
    groups->erase(kept, groups->end());
  }
  suppress_keepers(report, &hidden);
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (hidden[i].groups == 0) continue;
    report->suppressed.push_back({rules_[i].path, rules_[i].line, text_of(rules_[i]), hidden[i]});
  }
}

// A suppressed keeper stays in the list, whose rows add up to the live memory of its cache.
void Suppressions::suppress_keepers(Report* report, std::vector<HiddenTotal>* hidden) {
  for (CacheInside& inside : report->caches_inside) {
    for (Keeper& keeper : inside.kept) {
      for (std::size_t i = 0; i < rules_.size() && !keeper.suppressed; ++i) {
        const Rule& rule = rules_[i];
        const bool fits = rule.what == Suppresses::kKeeper ? matches_pattern(rule.pattern, keeper.path)
                                                           : rule.what == Suppresses::kId && rule.pattern == keeper.id;
        if (!fits || (rule.max_bytes && keeper.bytes > *rule.max_bytes)) continue;
        keeper.suppressed = rules_[i].used = true;
        ++(*hidden)[i].groups;
        (*hidden)[i].allocations += keeper.count;
        (*hidden)[i].bytes += keeper.bytes;
        report->live_cached_bytes -= std::min(report->live_cached_bytes, keeper.bytes);
      }
    }
  }
}

std::vector<std::string> Suppressions::unused() const {
  std::vector<std::string> lines;
  for (const Rule& rule : rules_) {
    if (!rule.used) lines.push_back(rule.path + ":" + std::to_string(rule.line) + ": " + text_of(rule));
  }
  return lines;
}

namespace {

// The largest first. By the id, which stays when the path in words changes its numbers.
std::string suggest_for_keepers(const std::vector<Report>& reports) {
  std::vector<const Report*> all;
  for (const Report& report : reports) all.push_back(&report);
  std::vector<Keeper> keepers = keepers_of(all);
  std::stable_sort(keepers.begin(), keepers.end(),
                   [](const Keeper& left, const Keeper& right) { return left.bytes > right.bytes; });
  std::string text;
  for (const Keeper& keeper : keepers) {
    text += "# " + format_bytes(keeper.bytes) + " live in a cache, " + keeper_kind_title(keeper.kind);
    if (!keeper.path.empty()) text += ": " + printable(keeper.path);
    text += "\nid:" + keeper.id + "\n";
  }
  return text;
}

}  // namespace

std::string suggest_suppressions(const std::vector<Report>& reports, bool strict) {
  // Leaks of one id differ by their lines, which change more often: they stand in the suggestion only where they must.
  std::map<std::string, std::set<std::string>> lines;
  for (const Report& report : reports) {
    for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
      for (const Group& group : *groups) lines[group.id].insert(id_and_lines(group));
    }
  }
  struct Entry {
    HiddenTotal total;
    std::string what;
  };
  std::vector<std::string> order;
  std::map<std::string, Entry> entries;
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      std::string line = "# (no stack was recorded: a line for it would hide others)";
      if (!group.stack->frames.empty()) line = "id:" + (lines.at(group.id).size() > 1 ? id_and_lines(group) : group.id);
      if (entries.count(line) == 0) order.push_back(line);
      Entry& entry = entries[line];
      entry.total.add(group);
      const std::string what = printable(group.api) + " " + kind_name(group.kind) + ", " + cause_name(group.cause) +
                               ", " + printable(places_of(*group.stack));
      if (entry.what.find(what) == std::string::npos) entry.what += (entry.what.empty() ? "" : "; ") + what;
    }
  }
  std::string text;
  for (const std::string& line : order) {
    const Entry& entry = entries[line];
    text += "# " + format_bytes(entry.total.bytes) + " in " + std::to_string(entry.total.allocations) +
            "x: " + entry.what + "\n" + line + "\n";
  }
  return text + suggest_for_keepers(reports);
}

}  // namespace culprit::report
