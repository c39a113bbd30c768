// Makes stacks for display from those of a dump.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/format/dump_file.h"
#include "report/dump/allocation_groups.h"
#include "report/model/frame_numbers.h"
#include "report/model/frames.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {

class Dump;
struct StackView;

// Resolves stacks in batches: the symbols of all their modules are looked up at once. Not thread-safe.
class StackResolver {
 public:
  // `dump` and the objects that `lookup` refers to must outlive the resolver. `full_stacks` keeps frames that are
  // hidden otherwise.
  StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks);

  // Resolves `stacks`, the variables at `places`, which are encoded like frames, and those that lead to `heap` (any
  // order, repetitions allowed). `assigned`: whether the places are assigned to is asked for, too, which needs types.
  void resolve(const std::vector<format::Ref>& stacks, const std::vector<std::uint64_t>& places = {},
               std::vector<HeapPlace> heap = {}, bool assigned = false);

  // The stack of an earlier resolve(). An empty one for 0 and for invalid references, and where the report would become
  // too large, see most_shown_bytes(). Call it once for each place that shows the stack.
  const ResolvedStack& stack(format::Ref ref) const;

  // The variable at a place of an earlier resolve(): one object per variable, and one for all places of a module
  // without a known variable. nullptr when the place is outside of all modules.
  const Variable* variable(std::uint64_t place) const;

  // nullptr: not known, not asked for, or the place is one of several.
  const AssignedPlace* assigned(std::uint64_t place) const;

  // The variable that leads to a place in the heap of an earlier resolve(), and the way from it. Both nullptr when
  // nothing is known, or when the way is perhaps the driver's own.
  struct HeapHolder {
    const Variable* variable = nullptr;
    const std::string* path = nullptr;
    const AssignedPlace* assigned = nullptr;  // as from assigned()
  };
  HeapHolder heap_holder(const HeapPlace& place) const;

  // The function of the frame that is the `depth`th native one of the recorded stack, counted from the outermost as 1;
  // nullptr when there is none.
  const Frame* frame_from_outermost(format::Ref stack, std::uint32_t depth) const;

  // Visits each frame of the resolved stacks once.
  template <typename Visit>
  void for_each_frame(Visit visit) const {
    for (const Frame& frame : frames_) visit(frame);
  }

  // Remarks about the modules for the reader: changed since the run, or missing.
  std::vector<std::string> notes() const;

 private:
  using Address = std::uint64_t;  // encoded as in dump_format.h
  using Expansion = std::vector<const Frame*>;

  struct Place;
  struct HeapQuestion;
  class Questions;

  // Asks for the symbols of code and data, and stores the answers by the next three.
  void look_up(const std::vector<Address>& addresses, const std::vector<Address>& places,
               const std::vector<HeapPlace>& heap, bool assigned);
  std::vector<const Module*> add_modules(const Questions& questions);
  void add_frames(const std::vector<Place>& code, const std::vector<const Module*>& modules, Questions* questions);
  void add_variables(const std::vector<Place>& data, const std::vector<const Module*>& modules,
                     const Questions& questions);
  void add_heap_holders(const std::vector<HeapQuestion>& heap, const std::vector<const Module*>& modules,
                        const Questions& questions);
  void add_assigned(const std::vector<Place>& data, const std::vector<std::size_t>& paths, const Questions& questions);
  void add_python_frame(Address address);
  ResolvedStack assemble(const StackView& view) const;

  const Dump& dump_;
  SymbolLookup lookup_;
  bool full_stacks_;
  std::uint64_t frames_left_;                        // that stacks to come may have, see Dump::most_frames()
  mutable std::uint64_t shown_left_;                 // bytes
  mutable std::uint64_t not_shown_ = 0;              // stacks for which too few were left
  std::uint64_t overlapping_ = 0;                    // stacks that had more
  mutable std::atomic<std::int64_t> expanded_left_;  // likewise with inlined calls, over all stacks
  std::deque<Module> modules_;
  std::deque<Frame> frames_;
  std::deque<Variable> variables_;
  std::vector<std::pair<Address, const Variable*>> variable_at_;                // sorted
  std::map<std::pair<format::Ref, std::uint32_t>, HeapHolder> heap_holder_at_;  // by step and word
  std::deque<std::string> paths_;
  std::map<Address, AssignedPlace> assigned_at_;
  std::deque<AssignedPlace> assigned_in_heap_;
  std::unordered_map<Address, Expansion> expansions_;
  struct Resolved {
    ResolvedStack stack;
    std::uint64_t shown_bytes = 0;
  };
  std::unordered_map<format::Ref, Resolved> stacks_;
  FrameNumbers numbers_;
  ResolvedStack none_;
};

}  // namespace culprit::report
