#include "report/model/stack_cache.h"

#include <functional>
#include <utility>

#include "interpose/format/dump_records.h"
#include "report/base/words.h"

namespace culprit::report {

using namespace format;

namespace {

// With the indices, and texts of usual length.
constexpr std::size_t kBytesOfModule = 512;
constexpr std::size_t kBytesOfFrame = 512;
constexpr std::size_t kBytesOfStack = sizeof(StackCache::Resolved) + 128;

std::size_t mixed(std::size_t hash, std::uint64_t more) {
  hash = (hash ^ more) * 0x9e3779b97f4a7c15ULL;
  return hash ^ hash >> 32;
}

}  // namespace

std::size_t StackCache::Key::hash() const {
  std::size_t hash = mixed(flags, places.size());
  for (const Place place : places) hash = mixed(hash, place);
  return hash;
}

std::uint32_t StackCache::number_of(const ModuleSymbols& module, bool executable) {
  const auto next = static_cast<std::uint32_t>(modules_.size() + 1);
  const auto [at, added] = numbers_of_modules_.try_emplace({module.path, module.build_id, executable}, next);
  if (!added) return at->second;
  Module& made = modules_.emplace_back();
  made.path = module.path;
  made.name = base_name(made.path);
  made.build_id = hex_bytes(module.build_id.data(), module.build_id.size());
  made.executable = executable;
  bytes_ += kBytesOfModule;
  return next;
}

void StackCache::set_facts(std::uint32_t number, const ModuleSymbols& answer) {
  Module& module = modules_[number - 1];
  const auto facts = [](const auto& one) { return std::make_tuple(one.has_debug_info, one.own_unwinder, one.state); };
  if (facts(module) == facts(answer)) return;
  module.has_debug_info = answer.has_debug_info;
  module.own_unwinder = answer.own_unwinder;
  module.state = answer.state;
  // The store learns the new facts when it imports the stacks again.
  imported_.clear();
}

const StackCache::Expansion* StackCache::find(Place place) const {
  const auto at = expansions_.find(place);
  return at == expansions_.end() ? nullptr : &at->second;
}

void StackCache::add(Place place, const Frame& frame, std::vector<CodeLocation>* locations) {
  Expansion expansion;
  for (CodeLocation& location : *locations) {
    Frame& one = frames_.emplace_back(frame);
    one.function = std::move(location.function);
    one.file = std::move(location.file);
    one.line = location.line;
    one.inlined = location.inlined;
    one.approximate = location.approximate;
    one.symbol_offset = location.symbol_offset;
    one.symbol = std::move(location.symbol);
    numbers_.number(&one);
    expansion.push_back(&one);
  }
  if (expansion.empty()) {
    numbers_.number(&frames_.emplace_back(frame));
    expansion.push_back(&frames_.back());
  }
  bytes_ += kBytesOfFrame * expansion.size();
  expansions_.emplace(place, std::move(expansion));
}

StackCache::Place StackCache::python_place(std::string_view function, std::string_view file, unsigned line) {
  const std::hash<std::string_view> hash_of;
  const std::size_t hash = mixed(mixed(hash_of(function), hash_of(file)), line);
  const auto [begin, end] = python_places_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Frame& known = *find(at->second)->front();
    if (known.function == function && known.file == file && known.line == line) return at->second;
  }
  Frame frame;
  frame.python = true;
  frame.function = function;
  frame.file = file;
  frame.line = line;
  const Place place = kPythonModule << kFrameModuleShift | ++python_frames_;
  std::vector<CodeLocation> none;
  add(place, frame, &none);
  python_places_.emplace(hash, place);
  return place;
}

const StackCache::Resolved* StackCache::find(const Key& key, std::size_t hash) const {
  const auto [begin, end] = kept_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    if (at->second.key.flags == key.flags && at->second.key.places == key.places) return at->second.stack;
  }
  return nullptr;
}

StackCache::Resolved* StackCache::new_stack() {
  bytes_ += kBytesOfStack;
  return &stacks_.emplace_back();
}

void StackCache::keep(Resolved* stack, Key key, std::size_t hash) {
  bytes_ += sizeof(Place) * key.places.size() + sizeof(const Frame*) * stack->stack.frames.size();
  kept_.emplace(hash, Kept{std::move(key), stack});
  stack->stack.number = ++numbered_;
}

void StackCache::set_imported(std::uint32_t number, const ResolvedStack* stored) {
  if (number >= imported_.size()) imported_.resize(number + 1);
  imported_[number] = stored;
}

}  // namespace culprit::report
