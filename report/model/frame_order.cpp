#include "report/model/frame_order.h"

#include <algorithm>
#include <string>
#include <tuple>

namespace culprit::report {
namespace {

bool module_precedes(const Module* left, const Module* right) {
  if (left == nullptr || right == nullptr) return left != nullptr;
  return std::tie(left->path, left->build_id) < std::tie(right->path, right->build_id);
}

// All but the module.
auto frame_facts(const Frame& frame) {
  return std::tie(frame.offset, frame.line, frame.function, frame.file, frame.inlined, frame.python, frame.approximate,
                  frame.symbol_offset, frame.symbol);
}

auto stack_facts(const ResolvedStack& stack) {
  return std::tie(stack.runtime_api, stack.through_runtime, stack.truncated, stack.merged, stack.has_python,
                  stack.hidden_inside, stack.hidden_outside);
}

template <typename Before>
bool frames_precede(const ResolvedStack& left, const ResolvedStack& right, Before before) {
  return std::lexicographical_compare(left.frames.begin(), left.frames.end(), right.frames.begin(), right.frames.end(),
                                      before);
}

}  // namespace

bool precedes(const Frame* left, const Frame* right) {
  if (left == right) return false;
  if (left == nullptr || right == nullptr) return right == nullptr;
  if (frame_facts(*left) != frame_facts(*right)) return frame_facts(*left) < frame_facts(*right);
  return left->module != right->module && module_precedes(left->module, right->module);
}

bool precedes(const ResolvedStack* left, const ResolvedStack* right) {
  if (left == right) return false;
  if (left == nullptr || right == nullptr) return right == nullptr;
  const auto by_offset = [](const Frame* a, const Frame* b) { return a->offset < b->offset; };
  if (frames_precede(*left, *right, by_offset)) return true;
  if (frames_precede(*right, *left, by_offset)) return false;
  const auto by_all = [](const Frame* a, const Frame* b) { return precedes(a, b); };
  if (frames_precede(*left, *right, by_all)) return true;
  if (frames_precede(*right, *left, by_all)) return false;
  if (stack_facts(*left) != stack_facts(*right)) return stack_facts(*left) < stack_facts(*right);
  return precedes(left->caller, right->caller);
}

}  // namespace culprit::report
