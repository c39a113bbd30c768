// Frames and stacks from several reports, each stored once; a merged report points into it.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "report/model/frame_numbers.h"
#include "report/model/frames.h"

namespace culprit::report {

class StackCache;

// All returned pointers live as long as the store. Not thread-safe.
class FrameStore {
 public:
  FrameStore() = default;
  FrameStore(const FrameStore&) = delete;
  FrameStore& operator=(const FrameStore&) = delete;

  // Return the store's own copies: equal ones are one object. The module of a frame or variable must be the store's or
  // nullptr; the frames of a stack must be the store's.
  const Module* add(Module module);
  const Frame* add(const Frame& frame) { return add(frame, frame.module); }
  // The frame with its module replaced by `module`.
  const Frame* add(const Frame& frame, const Module* module);
  const Variable* add(Variable variable);
  const ResolvedStack* add(ResolvedStack stack);

 private:
  // Hash and compare by content, not by address.
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
  std::unordered_multimap<std::size_t, const Frame*> known_frames_;  // by hash, so that most look-ups need no copy
  Kept<Variable> variables_;
  Kept<ResolvedStack> stacks_;
  FrameNumbers numbers_;
};

// Copies the frames, variables and stacks of one report into a store.
class StoreImport {
 public:
  // `cache`: the one that the report's stacks are of, always with this store, so that a stack is copied once for all
  // reports; nullptr: none.
  explicit StoreImport(FrameStore* store, StackCache* cache = nullptr) : store_(*store), cache_(cache) {}

  // Return nullptr for nullptr.
  const Frame* import(const Frame* frame);
  const Variable* import(const Variable* variable);
  const ResolvedStack* import(const ResolvedStack* stack);

 private:
  const Module* import(const Module* module);

  FrameStore& store_;
  StackCache* cache_;
  std::unordered_map<const void*, const void*> known_;
};

}  // namespace culprit::report
