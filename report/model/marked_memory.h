// The memory that was live at a mark with bytes: culprit_mark_with_bytes().
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/model/group.h"

namespace culprit::report {

struct MarkedMemory {
  std::string name;
  std::uint64_t number = 0;  // of this name: 1 = the first time that it was set
  std::uint64_t time_ns = 0;
  std::uint64_t bytes = 0;  // with those in `other_bytes`
  std::uint64_t count = 0;
  std::uint64_t other_bytes = 0;  // in no group: there were more stacks than are kept
  std::uint64_t other_count = 0;
  std::vector<Group> groups;  // filled only where LoadOptions::marked asks for it
};

// The one with this name: the newest; or "NAME#N": the one of number N. nullptr: there is none.
const MarkedMemory* find_marked(const std::vector<MarkedMemory>& marked, const std::string& name);

}  // namespace culprit::report
