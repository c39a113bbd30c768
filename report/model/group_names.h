// Names for the groups of a report. Several groups may share an id; an anchor of a page and a test case need a name for
// each.
#pragma once

#include <string>
#include <unordered_map>

namespace culprit::report {

struct Group;
struct Report;

// Order in the code: by the places of the frames, outermost first; then by device and cause.
bool earlier_in_code(const Group& left, const Group& right);

class GroupNames {
 public:
  // Of all groups that the report lists; it must outlive this object, and keep its lists as they are.
  explicit GroupNames(const Report& report);

  // The id; of the second and later groups with one id, in the order of the code: "7c1e0a44b2d9f310-2".
  std::string of(const Group& group) const;

 private:
  std::unordered_map<const Group*, std::size_t> numbers_;  // only of those after the first
};

}  // namespace culprit::report
