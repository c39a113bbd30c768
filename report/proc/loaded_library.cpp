#include "report/proc/loaded_library.h"

#include <algorithm>

namespace culprit::report {
namespace {

// Whether the code of the file follows, whose first bytes are mapped at `first`.
bool has_code(const std::vector<MappedRange>& mappings, std::size_t first) {
  const std::string& path = mappings[first].path;
  for (std::size_t i = first; i < mappings.size(); ++i) {
    const MappedRange& range = mappings[i];
    if (range.path.empty()) continue;  // zero-filled memory between its parts
    if (range.path != path || (i != first && range.offset == 0)) return false;
    if (range.executable) return true;
  }
  return false;
}

}  // namespace

std::vector<const MappedRange*> find_all_loaded(const std::vector<MappedRange>& mappings,
                                                const std::vector<std::string>& names, std::size_t most) {
  std::vector<const MappedRange*> found;
  for (std::size_t i = 0; i < mappings.size() && found.size() < most; ++i) {
    const MappedRange& range = mappings[i];
    const bool wanted =
        range.offset == 0 && !range.path.empty() && range.path[0] == '/' &&
        std::any_of(names.begin(), names.end(), [&](const std::string& name) { return range.file_begins_with(name); });
    if (wanted && has_code(mappings, i)) found.push_back(&range);
  }
  return found;
}

const MappedRange* find_loaded(const std::vector<MappedRange>& mappings, const std::vector<std::string>& names) {
  const std::vector<const MappedRange*> found = find_all_loaded(mappings, names, 1);
  return found.empty() ? nullptr : found.front();
}

std::vector<MappedRange> mappings_of(const ProcessFolder& process, int* error) {
  std::vector<MappedRange> mappings;
  const int failed = process.for_each_mapping([&](const MappedRange& range) { mappings.push_back(range); });
  if (error != nullptr) *error = failed;
  return mappings;
}

}  // namespace culprit::report
