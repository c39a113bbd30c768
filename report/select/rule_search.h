// Which line of the suppressions hides a leak: the first that matches. Each text of a report's stacks is compared with
// the patterns once, however many leaks have it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "report/select/pattern_index.h"

namespace culprit::report {

struct Frame;
struct Group;

enum class Suppresses { kLeak, kModule, kCause, kKind, kId, kKeeper };

// A line of a suppressions file: the leaks that it hides.
struct SuppressionRule {
  Suppresses what = Suppresses::kLeak;
  std::string pattern;
  std::optional<std::uint64_t> max_bytes;
};

// The pattern of a rule that hides the group's id, and no group with that id and other lines.
std::string id_and_lines(const Group& group);

// Not thread-safe. The rules, and the reports whose groups it sees, must outlive it.
class RuleSearch {
 public:
  explicit RuleSearch(const std::vector<const SuppressionRule*>& rules);

  // The number of the first rule that hides the group; empty: none does. `bytes`: of all groups of its leak, which
  // max-bytes limits. `with_causes`: rules of causes count, too.
  // Throws FileError when the patterns take too long, or too much memory, with the texts of these reports.
  std::optional<std::uint32_t> first(const Group& group, std::uint64_t bytes, bool with_causes);

 private:
  // Of the rules that match something those that may be the first one for a group, depending on its bytes: each hides
  // groups with more bytes than those before it.
  using Rules = std::vector<std::uint32_t>;

  enum class Sort { kModule, kText };

  std::uint64_t limit(std::uint32_t rule) const;
  // Adds a rule that comes after those in the list; false when no further one is needed.
  bool add(std::uint32_t rule, Rules* to) const;
  std::uint32_t find(const Rules& rules, std::uint64_t bytes) const;
  const Rules& rules_of_text(std::string_view text, Sort sort);
  const std::vector<const Rules*>& rules_of_frame(const Frame& frame);
  const Rules& rules_of_name(Suppresses what, const std::string& name);
  std::uint32_t find_id(const std::string& id, std::uint64_t bytes) const;

  const std::vector<const SuppressionRule*>& rules_;
  std::vector<std::uint32_t> numbers_;  // of the index's patterns: the rule of each
  PatternIndex index_;
  std::unordered_map<std::string_view, Rules> modules_;
  std::unordered_map<std::string_view, Rules> texts_;
  std::unordered_map<const Frame*, std::vector<const Rules*>> frames_;
  std::map<std::pair<Suppresses, std::string>, Rules> names_;
  std::unordered_map<std::string_view, Rules> ids_;
  bool with_lines_ = false;    // a rule of an id has lines
  std::uint64_t entries_ = 0;  // in all lists of texts
};

}  // namespace culprit::report
