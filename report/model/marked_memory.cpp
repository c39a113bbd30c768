#include "report/model/marked_memory.h"

#include "report/model/marks.h"

namespace culprit::report {

const MarkedMemory* find_marked(const std::vector<MarkedMemory>& marked, const std::string& name) {
  const MarkedMemory* found = nullptr;
  for (const MarkedMemory& one : marked) {
    if (one.name == name) found = &one;
  }
  if (found != nullptr) return found;
  const MarkName split = split_mark_name(name);
  for (const MarkedMemory& one : marked) {
    if (one.name == split.name && one.number == split.number) found = &one;
  }
  return found;
}

}  // namespace culprit::report
