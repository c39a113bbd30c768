// Frames and stacks out of several reports, each kept once: what a report of many processes points to.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/stacks.h"

namespace culprit {

// Everything that it returns lives as long as the store. Not thread-safe.
class FrameStore {
 public:
  FrameStore() = default;
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // The store's own copies: equal ones are one object. The module of a frame or variable must be the store's or
  // nullptr; so must the frames of a stack.
  const Module* add(const Module& module);
  const Frame* add(Frame frame);
  const Variable* add(const Variable& variable);
  const ResolvedStack* add(const ResolvedStack& stack);

 private:
  template <typename Thing>
  using Known = std::unordered_map<std::string, const Thing*>;

  std::deque<Module> modules_;
  std::deque<Frame> frames_;
  std::deque<Variable> variables_;
  std::deque<ResolvedStack> stacks_;
  Known<Module> known_modules_;
  Known<Frame> known_frames_;
  Known<Variable> known_variables_;
  Known<ResolvedStack> known_stacks_;
  FrameNumbers numbers_;
};

// Takes what one report points to into a store.
class StoreImport {
 public:
  explicit StoreImport(FrameStore* store) : store_(*store) {}

  // nullptr for nullptr.
  const Frame* import(const Frame* frame);
  const Variable* import(const Variable* variable);
  const ResolvedStack* import(const ResolvedStack* stack);

 private:
  const Module* import(const Module* module);

  FrameStore& store_;
  std::unordered_map<const void*, const void*> known_;
};

}  // namespace culprit
