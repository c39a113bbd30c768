// Makes stacks for display from those of a dump.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "interpose/format/dump_file.h"
#include "report/dump/allocation_groups.h"
#include "report/dump/last_held.h"
#include "report/model/frames.h"
#include "report/model/stack_cache.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {

class Dump;
struct StackView;

// Resolves stacks in batches: the symbols of all their modules are looked up at once. Not thread-safe.
class StackResolver {
 public:
  // `dump` and the objects that `lookup` refers to must outlive the resolver. `full_stacks` keeps frames that are
  // hidden otherwise. `shared`: what earlier resolvers of this thread, with the same options, found out; nullptr: there
  // are none. `lookup` must then remember what it knows of a module (shared_symbols.h), because a later resolver asks
  // for fewer frames of it. What the cache knows of modules changes with each resolver.
  StackResolver(const Dump& dump, SymbolLookup lookup, bool full_stacks, std::shared_ptr<StackCache> shared = nullptr);

  // Resolves `stacks`, the variables at `places`, which are encoded like frames, and those that lead to `heap` (any
  // order, repetitions allowed). `locals`: places in the frames of functions.
  void resolve(const std::vector<format::Ref>& stacks, const std::vector<std::uint64_t>& places = {},
               std::vector<HeapPlace> heap = {}, const std::vector<LocalPlace>& locals = {});

  // The stack of an earlier resolve(). An empty one for 0 and for invalid references, and where the report would become
  // too large, see most_shown_bytes(). Call it once for each place that shows the stack.
  const ResolvedStack& stack(format::Ref ref) const;

  struct Holder {
    const Variable* variable = nullptr;
    const std::string* path = nullptr;        // from the variable to the place
    const AssignedPlace* assigned = nullptr;  // nullptr: not known, or the place is one of several
  };
  // The variable at a place of an earlier resolve(): one object for all its members of one general name, and one for
  // all places of a module without a known variable. All nullptr when the place is outside of all modules.
  Holder variable(std::uint64_t place) const;

  // The variable that leads to a place in the heap of an earlier resolve(), and the way from it. All nullptr when
  // nothing is known, or when the way is perhaps the driver's own.
  Holder heap_holder(const HeapPlace& place) const;

  // The variable of a function at a place of an earlier resolve(). nullptr: not known, or the place is one of several.
  struct Local {
    const Module* module = nullptr;
    std::string function;
    std::string path;       // with its name: "engine.buffer"
    bool in_block = false;  // of the function, perhaps the body of a loop
  };
  const Local* local(const LocalPlace& place) const;

  // The function of the frame that is the `depth`th native one of the recorded stack, counted from the outermost as 1;
  // nullptr when there is none.
  const Frame* frame_from_outermost(format::Ref stack, std::uint32_t depth) const;

  // Whether the stacks are of the shared cache. They are not when there is none, or when it has no room for the dump.
  bool is_shared() const { return shared_; }
  // The frames of the resolved stacks; with a shared cache also those of others.
  const std::deque<Frame>& frames() const { return cache_->frames(); }

  // Remarks about the modules for the reader: changed since the run, or missing.
  std::vector<std::string> notes() const;

 private:
  using Address = std::uint64_t;  // encoded as in dump_format.h
  using Place = StackCache::Place;
  using Resolved = StackCache::Resolved;

  struct Wanted;
  struct Data;
  struct HeapQuestion;
  struct LocalQuestion;
  class Questions;

  std::vector<Wanted> wanted_of(const std::vector<format::Ref>& stacks);
  bool number_modules(const std::vector<Wanted>& wanted, Questions* questions);
  void add_python_frame(Address address);
  void use_own_cache();
  Place place_of(Address address) const;
  std::vector<Place> find_known(std::vector<Wanted>* wanted) const;
  bool take_inlined(const std::vector<Wanted>& wanted);
  void fill_in(std::vector<Wanted>* wanted);

  // Asks for the symbols of code and data, and stores the answers by the next five.
  void look_up(const std::vector<Place>& code, const std::vector<Address>& places, const std::vector<HeapPlace>& heap,
               const std::vector<LocalPlace>& locals, Questions* questions);
  std::vector<const Module*> add_modules(const Questions& questions);
  void add_frames(const std::vector<Place>& places, Questions* questions);
  void add_variables(const std::vector<Data>& data, const std::vector<const Module*>& modules,
                     const Questions& questions);
  void add_heap_holders(const std::vector<HeapQuestion>& heap, const std::vector<const Module*>& modules,
                        const Questions& questions);
  void add_locals(const std::vector<LocalQuestion>& locals, const std::vector<const Module*>& modules,
                  const Questions& questions);

  const Dump& dump_;
  SymbolLookup lookup_;
  bool full_stacks_;
  std::shared_ptr<StackCache> cache_;
  bool shared_;
  std::uint64_t frames_left_;                    // that stacks to come may have, see Dump::most_frames()
  mutable std::uint64_t shown_left_;             // bytes
  mutable std::uint64_t not_shown_ = 0;          // stacks for which too few were left
  std::uint64_t overlapping_ = 0;                // stacks that had more
  std::atomic<std::int64_t> inlined_left_;       // likewise with inlined calls, over all stacks
  std::vector<std::uint32_t> number_of_module_;  // by the dump's number: that of the cache, or kNoNumber
  std::unordered_map<Address, Place> python_places_;
  std::vector<const Module*> modules_;  // of this dump's stacks and variables
  std::deque<Variable> variables_;
  std::map<Address, Holder> variable_at_;
  std::map<std::pair<format::Ref, std::uint32_t>, Holder> heap_holder_at_;  // by step and word
  std::deque<std::string> paths_;
  std::deque<AssignedPlace> assigned_;
  std::map<LocalPlace, Local> local_at_;
  std::unordered_map<format::Ref, const Resolved*> stacks_;
  ResolvedStack none_;
};

}  // namespace culprit::report
