// Where each live allocation of a thread was made, as activations: a throw needs this to find the allocations whose
// frames are gone.
//
// A stack (a Ref) says which functions were active. A path also says where on the stack they are: for each frame the
// return address and the stack pointer that the frame has after the return. Two paths that share the outer frames and
// reach the same function at the same place share its activation; the innermost one that they share is the owner:
//
//     allocation:  main  step  make_buffer  cudaMalloc ...
//     throw:       main  step  check  __cxa_throw              owner: step, unless it was called anew in between
//
// A frame's activation is named by its CFA, the stack pointer of its caller after the return: the deeper, the smaller.
//
// One object a thread, written by its thread only. Paths share their outer frames (a tree of nodes), and live as long
// as the thread. The generation of a record shows that another thread has ended it.
#pragma once

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/dump/dump_writer.h"
#include "interpose/owners/made_list.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/hash_index.h"
#include "interpose/system/own_stack.h"

namespace culprit {

// An exception between its throw and its handler; afterwards, its data for a rethrow.
struct Flight {
  const void* object;   // the thrown object, nullptr = unused
  std::uint32_t path;   // where it was thrown, 0 = not known
  std::uint32_t epoch;  // of the paths' numbers
  std::uint32_t clock;  // later allocations were made during the unwinding
  format::Ref stack;    // of its first throw
  bool flying;
  bool rethrown;
};

class ThreadPaths {
 public:
  using Path = std::uint32_t;                         // 0 = not known
  using Node = std::uint32_t;                         // a frame of a path, 0 = none
  static constexpr std::uint64_t kOutermost = ~0ULL;  // CFA of a frame without a caller

  // In private memory; nullptr when there is none. Free with destroy().
  static ThreadPaths* create(DumpWriter& dump);
  void destroy();

  // Forgets everything: another thread begins to use this.
  void clear();
  // Whether few paths and allocations were stored.
  bool used_little() const { return node_count_ <= kNodes / 32 && made_.used_little(); }

  // The path of a stack: return addresses and stack pointers, innermost first. 0 when there is no room, or no frame.
  Path intern(const RawStack& stack, const std::uint64_t* pointers);

  // Records a hook call by this path. Ignored while an exception is in flight, since the call says nothing about the
  // frames at the throw.
  void see(Path path) {
    if (CULPRIT_UNLIKELY(++clock_ == 0)) restart_clock();
    paths_[path & seen_mask_].seen = clock_;
  }

  // Whether made() needs no more memory.
  bool has_room() const { return made_.has_room(); }

  // The last seen hook call made `record`, whose state is `state`.
  void made(format::Ref record, std::uint32_t state, Path path) {
    if (CULPRIT_UNLIKELY(path == 0)) return;
    if (CULPRIT_UNLIKELY(!made_.has_room())) {
      make_room();
      if (!made_.has_room()) return;
    }
    PathData& data = paths_[path];
    if (CULPRIT_UNLIKELY(data.newest == 0)) active_[active_count_++] = path;
    data.newest = clock_;
    made_.add({record, state >> format::kStateBits, path, false, clock_});
  }

  // This thread ended `record`, usually the newest one.
  void ended(format::Ref record) { made_.pop_if(record); }

  // Whether an allocation of this thread may be live. Drops dead entries, newest first, up to a live one.
  bool any_live() {
    while (made_.count() != 0 && !lives(made_.newest())) made_.pop();
    return made_.count() != 0;
  }

  // The innermost frame that two paths share: the same return address at the same place, and equal outer frames.
  struct Common {
    Node a, b;              // the shared frame, 0 = they share none (another stack); a == b, unless one is cut
    Node a_inner, b_inner;  // the frames that it called, 0 = it is the innermost
  };
  Common find_common(Path a, Path b) const;

  std::uint64_t address(Node node) const { return nodes_[node].address; }
  // The CFA of the function that this frame called.
  std::uint64_t pointer(Node node) const { return nodes_[node].pointer; }
  // The CFA of this frame.
  std::uint64_t cfa(Node node) const { return nodes_[node].outer == 0 ? kOutermost : pointer(nodes_[node].outer); }
  // Frames from the outermost up to and including this one.
  std::uint16_t depth(Node node) const { return nodes_[node].depth; }
  Node innermost(Path path) const { return paths_[path].innermost; }
  Node outer(Node node) const { return nodes_[node].outer; }
  // Whether the outermost frames are not known.
  bool is_cut(Path path) const { return is_node_cut(paths_[path].innermost); }
  bool is_node_cut(Node node) const { return nodes_[node].cut; }

  // Hook calls so far; the one that made the newest allocation, of this path or of all.
  std::uint32_t clock() const { return clock_; }
  std::uint32_t newest(Path path) const { return paths_[path].newest; }
  std::uint32_t newest_made() const { return made_.count() == 0 ? 0 : made_.newest().clock; }
  // Whether the newest allocation of this path is live.
  bool newest_lives(Path path) const;

  // Calls visit(path) for each path with entries.
  template <typename Visit>
  void for_each_active(Visit visit) {
    for (std::uint32_t i = active_count_; i > 0; --i) visit(active_[i - 1]);
  }

  // Calls visit(record, path, made) for live allocations made after hook call `since`, newest first. Visits only the
  // newest 100,000 entries, which takes a millisecond.
  template <typename Visit>
  void for_each_live(std::uint32_t since, Visit visit) {
    MadeList::Walk walk(made_);
    for (std::uint32_t i = 0; i < kMostLooked && walk.next() && walk.entry().clock > since; ++i) {
      const MadeEntry& entry = walk.entry();
      if (lives(entry)) visit(entry.record, Path{entry.path}, entry.clock);
    }
  }

  // Calls visit(path) for each path with unsettled entries.
  template <typename Visit>
  void for_each_unsettled(Visit visit) {
    for (std::uint32_t i = 0; i < active_count_; ++i) {
      const PathData& data = paths_[active_[i]];
      if (data.newest > data.settled) visit(active_[i]);
    }
  }

  // `owner_cfa`: the activation that owns allocations of `path`, as seen from an event. Returns the last hook call
  // outside that activation: allocations before it were made by an earlier activation at the same place.
  std::uint32_t running_since(Path path, std::uint64_t owner_cfa) const {
    return last_call_outside(path, owner_cfa, paths_[path].settled);
  }
  // Like running_since(), but ignores settled calls; returns `least` if there is no later call.
  std::uint32_t last_call_outside(Path path, std::uint64_t owner_cfa, std::uint32_t least) const;

  // If several allocations of `path` are unsettled: marks those whose handles are on the stack between `begin` and
  // `end`, the frames of the owner and its callees. They were made by the present activation: the variables of earlier
  // ones were overwritten.
  void look_in_frames(Path path, const std::uint64_t* begin, const std::uint64_t* end);

  // Calls visit(record, is_sure) for live unsettled allocations made by `path` after hook call `since` and before the
  // throw at `clock`, newest first. Then marks the path as settled: its allocations were judged. The newest allocation
  // is sure, and so are those in the owner's frames. If the owner keeps the newest one in its frames, allocations
  // outside the frames were made by an earlier activation at the same place, and are skipped.
  template <typename Visit>
  void settle(Path path, std::uint32_t since, std::uint32_t clock, Visit visit) {
    PathData& data = paths_[path];
    bool is_newest = true;
    bool newest_in_frames = false;
    for (MadeList::Walk walk(made_); walk.next();) {
      const MadeEntry& entry = walk.entry();
      if (entry.clock <= since || entry.clock <= data.settled) break;
      if (entry.path != path || entry.clock > clock || !lives(entry)) continue;
      if (is_newest) newest_in_frames = entry.in_frames;
      if (is_newest || entry.in_frames || !newest_in_frames) visit(entry.record, is_newest || entry.in_frames);
      is_newest = false;
    }
    data.settled = clock_;
  }

  // Whether settle() would visit any allocation. Settles the path if not.
  bool has_unsettled(Path path, std::uint32_t since, std::uint32_t clock);

  // The flight of this object, nullptr if unknown. begin_flight() reuses the oldest slot when all are in use.
  Flight* flight_of(const void* object);
  Flight* begin_flight(const void* object, Path path, format::Ref stack);
  void end_flight(Flight* flight);
  void forget_flight(Flight* flight) {
    end_flight(flight);
    *flight = {};
  }

  // Calls visit(stack) for the remembered throws. May be called by other threads.
  template <typename Visit>
  void for_each_flight_stack(Visit visit) const {
    for (const Flight& flight : flights_) visit(__atomic_load_n(&flight.stack, __ATOMIC_ACQUIRE));
  }

  // A cached result for (path of an allocation, path of a throw, path of its handler), see abandoned.h. `path` 0: about
  // the throw and the handler alone.
  struct Verdict {
    Path path, thrown, caught;
    union {
      std::uint16_t owner_depth;
      std::uint16_t exception_end;  // with `path` 0: how the exception ended, an ExceptionEnd::How
    };
    union {
      bool abandoned;
      bool no_coroutine;  // with `path` 0: the handler is known to be none around a coroutine's body
    };
    bool ambiguous;
    std::uint64_t cfa;
    bool is_about(Path p, Path t, Path c) const { return path == p && thrown == t && caught == c; }
  };
  // The cache slot of this verdict; test it with is_about().
  Verdict* verdict(Path path, Path thrown, Path caught);
  // Call after a module was unloaded: addresses may be stale.
  void forget_verdicts(std::uint32_t generation);

  // Number of times that paths were renumbered: older path numbers are void, and a memo of stacks must forget them.
  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t entries() const { return made_.count(); }
  bool in_flight() const { return seen_mask_ == 0; }

 private:
  // The numbers are hook calls, counted by clock_.
  struct PathData {
    Node innermost;
    std::uint32_t seen;     // the last call by this path
    std::uint32_t newest;   // the last call that made something; 0 = no entries
    std::uint32_t settled;  // entries up to this one were judged
  };
  struct NodeData {
    std::uint64_t address;  // return address in this frame; bit 63 as in RawStack
    std::uint64_t pointer;  // stack pointer after that return
    Node outer;
    Path path;  // the path with this innermost frame, 0 = none
    std::uint16_t depth;
    bool cut;  // the outermost frames of its stack are not known
  };

  static constexpr std::uint32_t kNodes = 32768;
  static constexpr std::uint32_t kPaths = MadeList::kPaths;
  static constexpr std::uint32_t kVerdicts = 1024;
  static constexpr std::uint32_t kMostLooked = 100000;
  static constexpr int kFlights = 8;

  bool lives(const MadeEntry& entry) const {
    std::uint32_t state = __atomic_load_n(&dump_->at<format::AllocationRecord>(entry.record)->state, __ATOMIC_RELAXED);
    return state >> format::kStateBits == entry.generation &&
           format::state_of(state) != format::AllocationState::kEmpty;
  }
  Node add_node(Node outer, std::uint64_t address, std::uint64_t pointer, bool cut);
  Path add_path(const std::uint64_t* addresses, const std::uint64_t* pointers, int count, bool cut);
  CULPRIT_COLD void make_room();
  void make_room_here();
  void drop_ended();
  void renumber();
  CULPRIT_COLD void restart_clock();
  void restart_clock_here();

  DumpWriter* dump_;
  MadeList made_;
  std::uint32_t clock_;
  std::uint32_t seen_mask_;  // 0 while an exception is in flight
  std::uint32_t active_count_;
  std::uint32_t node_count_;
  std::uint32_t path_count_;
  std::uint32_t epoch_;
  std::uint32_t entries_when_full_;
  std::uint32_t verdicts_generation_;
  std::uint32_t next_flight_;
  PathData paths_[kPaths];  // here: every call touches clock_ and the first of these
  Flight flights_[kFlights];
  HashIndex index_;  // (outer, address, pointer) -> node
  Verdict verdicts_[kVerdicts];
  Path active_[kPaths];  // paths with entries
  NodeData nodes_[kNodes];
};

// The part of ThreadState (process/thread_state.h) that belongs to this folder.
struct PathPart {
  std::uint32_t current;  // in `all`: path of current_stack()'s last result, 0 = not known
  ThreadPaths* all;       // nullptr = none
};

}  // namespace culprit
