#include "report/model/stack_assembly.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "report/cuda/cuda_names.h"
#include "report/cuda/library_names.h"
#include "report/model/frame_rules.h"

namespace culprit::report {

ResolvedStack assemble_stack(std::vector<const Frame*> all, bool full_stacks) {
  ResolvedStack result;
  std::size_t begin = 0;
  while (begin < all.size() && (is_own(*all[begin]) || announces_region(*all[begin]))) ++begin;

  // The runtime's frames come next, all of one module: libcudart.so, or the module that it was linked into. They end at
  // the public function that the user called.
  std::size_t runtime_end = begin;
  const Module* runtime = begin < all.size() ? all[begin]->module : nullptr;
  const bool shared_runtime = begin < all.size() && in_module(*all[begin], kRuntimeLibrary);
  for (std::size_t i = begin; i < all.size(); ++i) {
    const Frame& frame = *all[i];
    const bool named = names_runtime_api(frame);
    // After the first public function, only further public functions belong to the runtime (the typed wrapper that
    // called it). Before it, a public function in another module is not the runtime's.
    const bool found = runtime_end > begin;
    const bool belongs = frame.module == runtime ? named || shared_runtime || !found : named && found;
    if (!belongs) break;
    if (named) result.runtime_api = source_api_name(frame.function);
    if (named || shared_runtime || is_runtime_helper(frame)) runtime_end = i + 1;
  }
  result.through_runtime = runtime_end > begin;
  begin = runtime_end;

  std::size_t end = all.size();
  // The _start of a stripped program has no name; it is recognised by libc's start-up function that it calls.
  if (end >= begin + 2 && all[end - 1]->file.empty() && is_libc(*all[end - 2]) && is_startup(*all[end - 2])) --end;
  while (end > begin && is_startup(*all[end - 1])) --end;

  if (begin < end) result.caller = all[begin];
  result.has_python = std::any_of(all.begin(), all.end(), [](const Frame* frame) { return frame->python; });
  if (full_stacks) {
    result.hidden_inside = static_cast<std::uint32_t>(begin);
    result.hidden_outside = static_cast<std::uint32_t>(all.size() - std::max(begin, end));
    result.frames = std::move(all);
  } else {
    // With Python's own frames present, the interpreter's native frames are left out.
    for (std::size_t i = begin; i < end; ++i) {
      if (!result.has_python || !is_python(*all[i])) result.frames.push_back(all[i]);
    }
  }
  return result;
}

}  // namespace culprit::report
