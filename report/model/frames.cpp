#include "report/model/frames.h"

namespace culprit::report {

std::uint64_t shown_bytes(const ResolvedStack& stack) {
  constexpr std::uint64_t kAround = 100;  // of a frame, without its names
  std::uint64_t bytes = kAround;
  for (const Frame* frame : stack.frames) {
    bytes += kAround + frame->function.size() + frame->file.size();
    if (frame->module != nullptr) bytes += frame->module->path.size();
  }
  return bytes;
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

}  // namespace culprit::report
