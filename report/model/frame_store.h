// Frames and stacks out of several reports, each kept once: what a report of many processes points to.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "report/model/stacks.h"

namespace culprit {

// Everything that it returns lives as long as the store. Not thread-safe.
class FrameStore {
 public:
  FrameStore() = default;
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // The store's own copies: equal ones are one object. The module of a frame or variable must be the store's or
  // nullptr; so must the frames of a stack.
  const Module* add(Module module);
  const Frame* add(const Frame& frame) { return add(frame, frame.module); }
  // The frame as if it were in that module.
  const Frame* add(const Frame& frame, const Module* module);
  const Variable* add(Variable variable);
  const ResolvedStack* add(ResolvedStack stack);

 private:
  // Things by what is in them, not by where they are.
  struct Hash {
    std::size_t operator()(const Module* module) const;
    std::size_t operator()(const Variable* variable) const;
    std::size_t operator()(const ResolvedStack* stack) const;
  };
  struct Equal {
    bool operator()(const Module* left, const Module* right) const;
    bool operator()(const Variable* left, const Variable* right) const;
    bool operator()(const ResolvedStack* left, const ResolvedStack* right) const;
  };
  template <typename Thing>
  struct Kept {
    std::deque<Thing> all;
    std::unordered_set<const Thing*, Hash, Equal> known;
  };
  template <typename Thing>
  static const Thing* once(Thing thing, Kept<Thing>* kept);

  Kept<Module> modules_;
  std::deque<Frame> frames_;
  std::unordered_multimap<std::size_t, const Frame*> known_frames_;  // by a hash: most are asked for without a copy
  Kept<Variable> variables_;
  Kept<ResolvedStack> stacks_;
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
