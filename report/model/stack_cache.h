// Frames by their places, and stacks by the places of their frames. The dumps of a job have the same modules and mostly
// the same stacks: a thread that reads many of them gives each dump what the earlier ones have resolved.
//
// A cache for each thread, because one of a whole job would be locked for each stack. Only the symbols are shared by
// all threads (shared_symbols.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "report/model/frame_numbers.h"
#include "report/model/frames.h"
#include "report/symbols/found_symbols.h"

namespace culprit::report {

// All returned pointers live as long as the cache. Not thread-safe, except that its const functions may be called by
// several threads at a time.
class StackCache {
 public:
  // The place of a frame: encoded like a frame of a dump (kFrameModuleShift and so on), but with the cache's number of
  // the module, or of the Python frame, in place of the dump's.
  using Place = std::uint64_t;
  // A frame, after the calls that were inlined there: innermost first, never empty.
  using Expansion = std::vector<const Frame*>;

  struct Resolved {
    ResolvedStack stack;
    std::uint64_t shown_bytes = 0;
    std::int64_t inlined = 0;  // frames of expansions that have several
  };
  struct Key {
    std::vector<Place> places;  // innermost first
    std::uint32_t flags = 0;    // of StackView
    std::size_t hash() const;
  };

  // Numbers from 1 on, the same for equal modules. Facts about a module are not part of what makes it equal.
  std::uint32_t number_of(const ModuleSymbols& module, bool executable);
  const Module* module(std::uint32_t number) const { return &modules_[number - 1]; }
  // Takes what is known of the file from an answer about the symbols of a later dump, too.
  void set_facts(std::uint32_t number, const ModuleSymbols& answer);

  // nullptr: not known yet.
  const Expansion* find(Place place) const;
  // Adds a place that is not known yet. `frame` has what all frames of the place have in common; the texts are moved
  // out of `locations`, which may be empty.
  void add(Place place, const Frame& frame, std::vector<CodeLocation>* locations);
  // The place of the Python frame, which is added if it is not known yet.
  Place python_place(std::string_view function, std::string_view file, unsigned line);

  // nullptr: not kept.
  const Resolved* find(const Key& key, std::size_t hash) const;
  // A stack to be filled in, and then kept, which gives it a number. One that is not kept will not be found.
  Resolved* new_stack();
  void keep(Resolved* stack, Key key, std::size_t hash);

  // All frames, the new ones at the end.
  const std::deque<Frame>& frames() const { return frames_; }

  // The copy of a stack in the FrameStore of the job, by the number of the stack; nullptr: none yet. One cache serves
  // one store.
  const ResolvedStack* imported(std::uint32_t number) const {
    return number < imported_.size() ? imported_[number] : nullptr;
  }
  void set_imported(std::uint32_t number, const ResolvedStack* stored);

  // About how much memory the cache takes.
  std::size_t bytes() const { return bytes_; }

 private:
  using ModuleKey = std::tuple<std::string, std::vector<std::uint8_t>, bool>;  // path, build ID, executable
  struct Kept {
    Key key;
    const Resolved* stack;
  };

  std::map<ModuleKey, std::uint32_t> numbers_of_modules_;
  std::deque<Module> modules_;
  std::deque<Frame> frames_;
  FrameNumbers numbers_;
  std::unordered_map<Place, Expansion> expansions_;
  std::unordered_multimap<std::size_t, Place> python_places_;  // by hash
  std::uint64_t python_frames_ = 0;
  std::deque<Resolved> stacks_;
  std::unordered_multimap<std::size_t, Kept> kept_;  // by hash
  std::uint32_t numbered_ = 0;
  std::vector<const ResolvedStack*> imported_;  // by ResolvedStack::number
  std::size_t bytes_ = 0;
};

}  // namespace culprit::report
