// Remembers, per thread, walks of stacks that StackMemo cannot recognize: with code that has no unwind information, or
// whose unwind information is more than an offset from a register.
//
// A walk is decided by the words that it reads, one after the other (WalkReader). They form a tree: a node says which
// word is read next, and the value leads to the next node or to a stack. That takes some nanoseconds for each word, a
// walk 400 nanoseconds a frame.
//
// A word is read in place if its page is part of the stack for certain: the hook's frame is there, or a frame behind
// which all have unwind information, or the thread's stack ends behind it (thread_stack.h). All others are read as a
// walk reads them, with a system call for each page.
//
// A difference from a walk made anew is possible where a JIT writes other code to the same address, or where memory
// becomes unreadable, or readable. All is forgotten when modules were unloaded, and soon after some were loaded.
//
// Stacks of signal handlers are not remembered. Not thread-safe and not reentrant: see StackMemo. All zeros = empty.
#pragma once

#include <cstdint>

#include "interpose/format/dump_format.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/stacks/thread_stack.h"
#include "interpose/stacks/walked_words.h"

namespace culprit {

class WalkMemo {
 public:
  // The remembered stack of the hook with this frame, 0 if there is none; sets `path` then. The first one reads words
  // in place only. The second one, to be called after that, reads all, on the tracker's own stack.
  format::Ref look_up_in_place(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path);
  format::Ref look_up(const std::uint64_t* frame, std::uint32_t generation, std::uint32_t* path);

  // Call after look_up() returned 0, with the same stack.
  void remember(const std::uint64_t* frame, std::uint32_t generation, format::Ref stack, std::uint32_t path,
                const WalkedWords& words);

  // See StackMemo.
  template <typename Visit>
  void for_each_stack(Visit visit) const {
    for (const Leaf& leaf : leaves_) visit(__atomic_load_n(&leaf.stack, __ATOMIC_ACQUIRE));
  }

  void forget_all();
  // Forgets all, when another thread begins to use this.
  void change_thread();
  // Whether few words were remembered since the last forget_all().
  bool used_little() const { return node_count_ <= kNodes / 32; }

 private:
  static constexpr std::uint32_t kPlaces = 16384;  // a power of two
  static constexpr std::uint32_t kNodes = kPlaces / 4 * 3;
  static constexpr std::uint32_t kLeaves = 1024;
  // How often the thread's stack is searched again, because it grew or another one is in use.
  static constexpr std::uint32_t kMostSearches = 16;
  struct Node {
    // How it is reached: from the node with this number, by this value; from 0 by a frame address.
    std::uint64_t value;
    std::uint32_t from;
    WalkedWords::Kind kind;
    bool certain;  // see WalkedWords
    bool is_leaf;
    std::uint64_t address;  // of the word to read; of a leaf its place in `leaves_`
    std::uint64_t cfa;      // for a frame pointer: of its frame
  };
  struct Leaf {
    format::Ref stack;
    std::uint32_t path;
  };
  // The number of the node that is reached, 0 if there is none. The nodes of one walk usually follow each other.
  std::uint32_t next(std::uint32_t from, std::uint64_t value) const;
  std::uint16_t* place_of(std::uint32_t from, std::uint64_t value);
  const Node& node(std::uint32_t number) const { return nodes_[number - 1]; }
  // Calls read(node, value) for each word, until there is a stack or no such node.
  template <typename Read>
  format::Ref follow(const std::uint64_t* frame, std::uint32_t* path, Read read) const;
  void learn_stack(std::uint64_t frame);

  std::uint32_t generation_;
  std::uint32_t node_count_;
  std::uint32_t leaf_count_;
  std::uint32_t look_ups_;
  std::uint32_t slow_look_ups_;  // since the last search for the thread's stack
  std::uint32_t searches_;
  ThreadStack stack_;
  ModuleListEnd modules_;
  std::uint16_t places_[kPlaces];  // numbers of nodes, by hash; 0 = none
  Node nodes_[kNodes];
  Leaf leaves_[kLeaves];
};

}  // namespace culprit
