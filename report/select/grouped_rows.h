// The leaks of a report summed up by a common property.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/selection_result.h"

namespace culprit::report {

struct Report;

struct GroupedRow {
  std::string key;   // the common value; tells rows of two reports of one process apart
  std::string text;  // the value as displayed, safe for a terminal
  HiddenTotal total;
  std::uint64_t first_ns = 0;      // of the oldest allocation of its groups
  const Group* largest = nullptr;  // of its groups; valid as long as the report
};

// `by`: stack, line, function, library, thread, device, cause or mark. Largest first. `strict`: cached memory counts.
std::vector<GroupedRow> grouped_rows(const Report& report, const std::string& by, bool strict);

}  // namespace culprit::report
