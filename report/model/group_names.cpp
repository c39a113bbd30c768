#include "report/model/group_names.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "report/model/report.h"

namespace culprit::report {

bool earlier_in_code(const Group& left, const Group& right) {
  const auto& a = left.stack->frames;
  const auto& b = right.stack->frames;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const Frame& x = *a[a.size() - 1 - i];
    const Frame& y = *b[b.size() - 1 - i];
    if (x.line != y.line) return x.line < y.line;
    if (x.offset != y.offset) return x.offset < y.offset;
  }
  if (a.size() != b.size()) return a.size() < b.size();
  if (left.device != right.device) return left.device < right.device;
  return left.cause < right.cause;
}

GroupNames::GroupNames(const Report& report) {
  std::unordered_map<std::string_view, std::vector<const Group*>> sharers;
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    for (const Group& group : *groups) sharers[group.id].push_back(&group);
  }
  for (auto& [id, groups] : sharers) {
    std::stable_sort(groups.begin(), groups.end(),
                     [](const Group* left, const Group* right) { return earlier_in_code(*left, *right); });
    for (std::size_t i = 1; i < groups.size(); ++i) numbers_[groups[i]] = i + 1;
  }
}

std::string GroupNames::of(const Group& group) const {
  const auto number = numbers_.find(&group);
  return number == numbers_.end() ? group.id : group.id + "-" + std::to_string(number->second);
}

}  // namespace culprit::report
