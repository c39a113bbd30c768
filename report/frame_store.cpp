#include "report/frame_store.h"

#include <type_traits>

namespace culprit {
namespace {

// Makes keys of different parts that cannot run into each other.
class Key {
 public:
  Key& add(const std::string& part) {
    add(part.size());
    text_ += part;
    return *this;
  }
  template <typename Number, typename = std::enable_if_t<std::is_arithmetic_v<Number> || std::is_pointer_v<Number>>>
  Key& add(Number number) {
    text_.append(reinterpret_cast<const char*>(&number), sizeof(number));
    return *this;
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

template <typename Thing>
const Thing* once(std::string key, const Thing& thing, std::unordered_map<std::string, const Thing*>* known,
                  std::deque<Thing>* all) {
  const auto [at, added] = known->try_emplace(std::move(key), nullptr);
  if (added) {
    all->push_back(thing);
    at->second = &all->back();
  }
  return at->second;
}

}  // namespace

const Module* FrameStore::add(const Module& module) {
  return once(Key().add(module.path).add(module.build_id).take(), module, &known_modules_, &modules_);
}

const Frame* FrameStore::add(Frame frame) {
  numbers_.number(&frame);
  Key key;
  key.add(frame.function).add(frame.file).add(frame.line).add(frame.module).add(frame.offset);
  key.add(frame.inlined).add(frame.python).add(frame.approximate).add(frame.symbol_offset);
  return once(key.take(), frame, &known_frames_, &frames_);
}

const Variable* FrameStore::add(const Variable& variable) {
  return once(Key().add(variable.module).add(variable.name).add(variable.begin).add(variable.python).take(), variable,
              &known_variables_, &variables_);
}

const ResolvedStack* FrameStore::add(const ResolvedStack& stack) {
  Key key;
  for (const Frame* frame : stack.frames) key.add(frame);
  key.add(stack.caller).add(stack.runtime_api).add(stack.through_runtime).add(stack.truncated).add(stack.has_python);
  return once(key.take(), stack, &known_stacks_, &stacks_);
}

const Module* StoreImport::import(const Module* module) {
  if (module == nullptr) return nullptr;
  const void*& known = known_[module];
  if (known == nullptr) known = store_.add(*module);
  return static_cast<const Module*>(known);
}

const Frame* StoreImport::import(const Frame* frame) {
  if (frame == nullptr) return nullptr;
  const auto known = known_.find(frame);
  if (known != known_.end()) return static_cast<const Frame*>(known->second);
  Frame copy = *frame;
  copy.module = import(frame->module);
  const Frame* stored = store_.add(std::move(copy));
  known_.emplace(frame, stored);
  return stored;
}

const Variable* StoreImport::import(const Variable* variable) {
  if (variable == nullptr) return nullptr;
  Variable copy = *variable;
  copy.module = import(variable->module);
  return store_.add(copy);
}

const ResolvedStack* StoreImport::import(const ResolvedStack* stack) {
  if (stack == nullptr) return nullptr;
  const auto known = known_.find(stack);
  if (known != known_.end()) return static_cast<const ResolvedStack*>(known->second);
  ResolvedStack copy = *stack;
  for (const Frame*& frame : copy.frames) frame = import(frame);
  copy.caller = import(stack->caller);
  const ResolvedStack* stored = store_.add(copy);
  known_.emplace(stack, stored);
  return stored;
}

}  // namespace culprit
