#include "report/select/suppressions.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "report/base/byte_size.h"
#include "report/base/file_error.h"
#include "report/base/input_file.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/report.h"
#include "report/model/summary.h"

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

}  // namespace

std::string Suppressions::add(const std::string& text, const std::string& path, std::size_t line) {
  const std::string trim = trimmed(text);
  if (trim.empty() || trim.front() == '#') return {};
  const std::size_t colon = trim.find(':');
  if (colon == std::string::npos) return "no \"leak:\", \"module:\", \"cause:\", \"kind:\" or \"max-bytes:\" before it";
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
  } else if (type == "max-bytes") {
    if (rules_.empty() || rules_.back().path != path) return "there is no line above that it could limit";
    if (rules_.back().max_bytes) return "the line above has a limit already";
    rules_.back().max_bytes = parse_bytes(rule.pattern);
    return rules_.back().max_bytes ? "" : rule.pattern + " is no size, like 4096, 64K or 1.5GiB";
  } else {
    return "\"" + std::string(cut_to_bytes(type, kLongestShown)) +
           ":\" is not known; leak, module, cause, kind and max-bytes are";
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
  static constexpr const char* kNames[] = {"leak", "module", "cause", "kind"};
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
    auto kept = groups->begin();
    for (Group& group : *groups) {
      const std::optional<std::uint32_t> rule = search.first(group, memory);
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
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (hidden[i].groups == 0) continue;
    report->suppressed.push_back({rules_[i].path, rules_[i].line, text_of(rules_[i]), hidden[i]});
  }
}

std::vector<std::string> Suppressions::unused() const {
  std::vector<std::string> lines;
  for (const Rule& rule : rules_) {
    if (!rule.used) lines.push_back(rule.path + ":" + std::to_string(rule.line) + ": " + text_of(rule));
  }
  return lines;
}

std::string suggest_suppressions(const std::vector<Report>& reports, bool strict) {
  struct Entry {
    HiddenTotal total;
    std::string what;
  };
  std::vector<std::string> order;
  std::map<std::string, Entry> entries;
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, strict)) continue;
      const Frame* frame = group.stack->caller;
      if (frame == nullptr && !group.stack->frames.empty()) frame = group.stack->frames.front();
      std::string line;
      // A nearest symbol in a stripped program may be different in the next build.
      if (frame != nullptr && !frame->function.empty() && !frame->approximate) {
        line = "leak:^" + printable(frame->function) + "$";
      } else if (frame != nullptr && frame->module != nullptr) {
        line = "module:^" + printable(frame->module->name) + "$";
      } else {
        line = "# (no stack was recorded: no pattern can name it)";
      }
      if (entries.count(line) == 0) order.push_back(line);
      Entry& entry = entries[line];
      entry.total.add(group);
      const std::string what = printable(group.api) + " " + kind_name(group.kind) + ", " + cause_name(group.cause);
      if (entry.what.find(what) == std::string::npos) entry.what += (entry.what.empty() ? "" : "; ") + what;
    }
  }
  std::string text;
  for (const std::string& line : order) {
    const Entry& entry = entries[line];
    text += "# " + format_bytes(entry.total.bytes) + " in " + std::to_string(entry.total.allocations) +
            "x: " + entry.what + "\n" + line + "\n";
  }
  return text;
}

}  // namespace culprit::report
