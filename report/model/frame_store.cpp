#include "report/model/frame_store.h"

#include <algorithm>
#include <functional>
#include <tuple>

#include "report/model/stack_cache.h"

namespace culprit::report {
namespace {

std::size_t mixed(std::size_t hash, std::size_t more) { return (hash ^ more) * 0x9e3779b97f4a7c15ULL; }
std::size_t hash_of(const std::string& text) { return std::hash<std::string>()(text); }
std::size_t hash_of(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) >> 4; }

// The members that make two objects equal.
auto facts(const Module& module) { return std::tie(module.path, module.build_id); }
// All but the module.
auto facts(const Frame& frame) {
  return std::tie(frame.offset, frame.line, frame.function, frame.file, frame.inlined, frame.python, frame.approximate,
                  frame.symbol_offset, frame.symbol);
}
auto facts(const Variable& variable) {
  return std::tie(variable.module, variable.name, variable.begin, variable.python, variable.steps, variable.path,
                  variable.typed);
}
auto facts(const ResolvedStack& stack) {
  return std::tie(stack.frames, stack.caller, stack.runtime_api, stack.through_runtime, stack.truncated, stack.merged,
                  stack.has_python, stack.hidden_inside, stack.hidden_outside);
}

}  // namespace

std::size_t FrameStore::Hash::operator()(const Module* module) const {
  return mixed(hash_of(module->path), hash_of(module->build_id));
}
std::size_t FrameStore::Hash::operator()(const Variable* variable) const {
  return mixed(mixed(hash_of(variable->name), variable->begin), hash_of(variable->module));
}
std::size_t FrameStore::Hash::operator()(const ResolvedStack* stack) const {
  // Not the caller's alone: it is often the first frame, and equal values would cancel each other.
  std::size_t hash = mixed(stack->frames.size(), hash_of(stack->caller));
  for (const Frame* frame : stack->frames) hash = mixed(hash, hash_of(frame));
  return hash;
}

bool FrameStore::Equal::operator()(const Module* left, const Module* right) const {
  return facts(*left) == facts(*right);
}
bool FrameStore::Equal::operator()(const Variable* left, const Variable* right) const {
  return facts(*left) == facts(*right);
}
bool FrameStore::Equal::operator()(const ResolvedStack* left, const ResolvedStack* right) const {
  return facts(*left) == facts(*right);
}

template <typename Thing>
const Thing* FrameStore::once(Thing thing, Kept<Thing>* kept) {
  const auto known = kept->known.find(&thing);
  if (known != kept->known.end()) return *known;
  kept->all.push_back(std::move(thing));
  kept->known.insert(&kept->all.back());
  return &kept->all.back();
}

// Each report knows what its own frames needed of a module: together they know the most.
const Module* FrameStore::add(Module module) {
  const Module* const kept = once(module, &modules_);
  Module& all = const_cast<Module&>(*kept);  // an element of modules_
  all.name = std::min(all.name, module.name);
  all.executable = all.executable || module.executable;
  all.has_debug_info = all.has_debug_info || module.has_debug_info;
  all.own_unwinder = all.own_unwinder || module.own_unwinder;
  all.state = std::min(all.state, module.state);
  return kept;
}

const Frame* FrameStore::add(const Frame& frame, const Module* module) {
  const std::size_t place = mixed(frame.offset, hash_of(module)) + frame.line;
  const std::size_t hash = mixed(mixed(place, hash_of(frame.function)), frame.symbol_offset);
  const auto [begin, end] = known_frames_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second->module == module && facts(*at->second) == facts(frame)) return at->second;
  }
  Frame& stored = frames_.emplace_back(frame);
  stored.module = module;
  numbers_.number(&stored);
  known_frames_.emplace(hash, &stored);
  return &stored;
}

const Variable* FrameStore::add(Variable variable) { return once(std::move(variable), &variables_); }

const ResolvedStack* FrameStore::add(ResolvedStack stack) { return once(std::move(stack), &stacks_); }

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
  const Frame* stored = store_.add(*frame, import(frame->module));
  known_.emplace(frame, stored);
  return stored;
}

const Variable* StoreImport::import(const Variable* variable) {
  if (variable == nullptr) return nullptr;
  Variable copy = *variable;
  copy.module = import(variable->module);
  return store_.add(std::move(copy));
}

const ResolvedStack* StoreImport::import(const ResolvedStack* stack) {
  if (stack == nullptr) return nullptr;
  const bool is_cached = cache_ != nullptr && stack->number != 0;
  if (is_cached) {
    if (const ResolvedStack* stored = cache_->imported(stack->number)) return stored;
  }
  const auto known = known_.find(stack);
  if (known != known_.end()) return static_cast<const ResolvedStack*>(known->second);
  ResolvedStack copy = *stack;
  copy.number = 0;
  for (const Frame*& frame : copy.frames) frame = import(frame);
  copy.caller = import(stack->caller);
  const ResolvedStack* stored = store_.add(std::move(copy));
  known_.emplace(stack, stored);
  if (is_cached) cache_->set_imported(stack->number, stored);
  return stored;
}

}  // namespace culprit::report
