#include "report/select/rule_search.h"

#include <algorithm>
#include <limits>

#include "report/base/file_error.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/frames.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
// About three seconds, and 64 MiB. Files that people write need a thousandth of that.
constexpr std::uint64_t kMostSteps = 1500000000;
constexpr std::uint64_t kMostEntries = 16 << 20;

// FNV-1a, which is the same on every platform, unlike std::hash.
class Hash32 {
 public:
  void add(std::string_view text) {
    for (const char c : text) add_byte(static_cast<unsigned char>(c));
    add_byte(0);
  }
  std::string hex() const { return hex_id(value_).substr(8); }

 private:
  void add_byte(unsigned char byte) { value_ = (value_ ^ byte) * 0x01000193U; }
  std::uint32_t value_ = 0x811c9dc5U;
};

}  // namespace

std::string id_and_lines(const Group& group) {
  // Of a Python program its own lines; else the frames of the program, those that --full-stacks adds left out.
  const ResolvedStack& stack = *group.stack;
  Hash32 hash;
  bool inside = stack.has_python || stack.caller == nullptr;
  for (const Frame* frame : stack.frames) {
    inside |= frame == stack.caller;
    if (!inside || frame->python != stack.has_python) continue;
    hash.add(frame->function);
    hash.add(base_name(frame->file));
    hash.add(std::to_string(frame->line > 0 ? frame->line : frame->offset));
    if (frame->function == "main") break;
  }
  return group.id + "/" + hash.hex();
}

RuleSearch::RuleSearch(const std::vector<const SuppressionRule*>& rules) : rules_(rules) {
  for (std::uint32_t i = 0; i < rules.size(); ++i) {
    if (rules[i]->what == Suppresses::kId) {
      add(i, &ids_[rules[i]->pattern]);
      with_lines_ |= rules[i]->pattern.find('/') != std::string::npos;
    }
    if (rules[i]->what != Suppresses::kLeak && rules[i]->what != Suppresses::kModule) continue;
    index_.add(rules[i]->pattern);
    numbers_.push_back(i);
  }
  index_.build();
}

std::uint64_t RuleSearch::limit(std::uint32_t rule) const {
  return rules_[rule]->max_bytes.value_or(std::numeric_limits<std::uint64_t>::max());
}

bool RuleSearch::add(std::uint32_t rule, Rules* to) const {
  if (to->empty() || limit(rule) > limit(to->back())) to->push_back(rule);
  return limit(to->back()) != std::numeric_limits<std::uint64_t>::max();
}

std::uint32_t RuleSearch::find(const Rules& rules, std::uint64_t bytes) const {
  const auto at =
      std::partition_point(rules.begin(), rules.end(), [&](std::uint32_t one) { return limit(one) < bytes; });
  return at == rules.end() ? kNone : *at;
}

const RuleSearch::Rules& RuleSearch::rules_of_text(std::string_view text, Sort sort) {
  const auto [at, added] = (sort == Sort::kModule ? modules_ : texts_).try_emplace(text);
  Rules& rules = at->second;
  if (!added) return rules;
  for (const std::uint32_t pattern : index_.candidates(text)) {
    const std::uint32_t rule = numbers_[pattern];
    if (sort == Sort::kText && rules_[rule]->what == Suppresses::kModule) continue;
    if (!rules.empty() && limit(rule) <= limit(rules.back())) continue;
    if (index_.matches(pattern, text) && !add(rule, &rules)) break;
  }
  entries_ += rules.size();
  if (index_.steps() > kMostSteps || entries_ > kMostEntries)
    throw FileError(std::to_string(rules_.size()) +
                    " suppressions take too long with this report: write fewer with \"*\" between short texts");
  return rules;
}

const std::vector<const RuleSearch::Rules*>& RuleSearch::rules_of_frame(const Frame& frame) {
  const auto [at, added] = frames_.try_emplace(&frame);
  if (!added) return at->second;
  const auto take = [&, &lists = at->second](const std::string& text, Sort sort) {
    const Rules& rules = rules_of_text(text, sort);
    if (!rules.empty()) lists.push_back(&rules);
  };
  if (frame.module != nullptr) {
    take(frame.module->name, Sort::kModule);
    take(frame.module->path, Sort::kModule);
  }
  if (!frame.function.empty()) take(frame.function, Sort::kText);
  if (!frame.file.empty()) take(frame.file, Sort::kText);
  return at->second;
}

const RuleSearch::Rules& RuleSearch::rules_of_name(Suppresses what, const std::string& name) {
  const auto [at, added] = names_.try_emplace({what, name});
  if (!added) return at->second;
  for (std::uint32_t i = 0; i < rules_.size(); ++i) {
    if (rules_[i]->what == what && rules_[i]->pattern == name && !add(i, &at->second)) break;
  }
  return at->second;
}

std::uint32_t RuleSearch::find_id(const std::string& id, std::uint64_t bytes) const {
  const auto at = ids_.find(id);
  return at == ids_.end() ? kNone : find(at->second, bytes);
}

std::optional<std::uint32_t> RuleSearch::first(const Group& group, std::uint64_t bytes, bool with_causes) {
  std::uint32_t best = find(rules_of_name(Suppresses::kKind, kind_name(group.kind)), bytes);
  if (with_causes) best = std::min(best, find(rules_of_name(Suppresses::kCause, cause_name(group.cause)), bytes));
  if (!ids_.empty()) best = std::min(best, find_id(group.id, bytes));
  if (with_lines_) best = std::min(best, find_id(id_and_lines(group), group.bytes));
  if (!numbers_.empty()) {
    for (const Frame* frame : group.stack->frames) {
      for (const Rules* rules : rules_of_frame(*frame)) best = std::min(best, find(*rules, bytes));
    }
  }
  if (best == kNone) return {};
  return best;
}

}  // namespace culprit::report
