#include "report/render/source_place.h"

#include <filesystem>

#include "report/model/frames.h"
#include "report/model/program_frames.h"

namespace culprit::report {

const Frame* place_of(const ResolvedStack* stack) {
  if (stack == nullptr || stack->frames.empty()) return nullptr;
  const Frame* named = naming_frame(*stack);
  if (named != nullptr && !named->file.empty()) return named;
  for (const Frame* frame : stack->frames) {
    if (!frame->file.empty() && is_program_frame(*frame)) return frame;
  }
  return named != nullptr ? named : stack->frames.front();
}

const Frame* place_below(const std::vector<std::string>& folders, const ResolvedStack* stack) {
  const Frame* place = place_of(stack);
  if (place == nullptr) return nullptr;
  for (const Frame* frame : stack->frames) {
    if (frame->file.empty() || frame->line == 0 || !is_program_frame(*frame)) continue;
    if (path_below(folders, frame->file).front() != '/') return frame;
  }
  return place;
}

std::string path_below(const std::vector<std::string>& folders, const std::string& path) {
  const std::string whole = std::filesystem::path(path).lexically_normal().string();
  for (const std::string& folder : folders) {
    std::string begin = std::filesystem::path(folder).lexically_normal().string();
    if (begin.empty() || begin.back() != '/') begin += '/';
    if (whole.size() > begin.size() && whole.compare(0, begin.size(), begin) == 0) return whole.substr(begin.size());
  }
  return whole;
}

}  // namespace culprit::report
