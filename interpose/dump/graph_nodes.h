// The nodes of graphs that allocate memory, or free the memory of another graph, and the executable graphs that run
// them.
//
// An allocating node has one address for ever. A launch allocates the memory there, until it is freed: by the program,
// by the launch of a graph with a node that frees it, or by the next launch (auto-free). The driver's rules (580):
//   - Memory that a node of its own graph frees can be freed nowhere else. Such a pair leaves nothing, and is not kept.
//   - A graph with such nodes has one executable at a time, and gets no more of them while it has one.
//   - It cannot be cloned. It becomes the child of another graph by a move only, and then belongs to that graph.
//   - An update of an executable may give it the nodes of another graph.
//
// A graph's nodes stay while it exists or an executable runs them. Not thread-safe: callers hold lock(), on the
// tracker's own stack, except where noted. All zeros = empty.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/format/dump_format.h"
#include "interpose/system/hash_index.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

class GraphNodes {
 public:
  struct Node {
    std::uint64_t address;
    format::Ref record;  // AllocationRecord of the memory; another one may be there by now
    bool frees;
  };

  SpinLock& lock() { return lock_; }

  // Whether an executable may have such nodes: one load, without the lock.
  bool may_run(std::uint64_t exec) const { return (executables_.load(std::memory_order_relaxed) & bit_of(exec)) != 0; }
  // Whether there are any such nodes. Without the lock.
  bool any() const { return any_.load(std::memory_order_relaxed) != 0; }

  // A node was added to a graph, `captured`: by a capture that has not ended. False when there is no room.
  bool add(std::uint64_t graph, const Node& node, bool captured);
  // A node that frees `record` was added to `graph`. When the memory is the graph's own, drops its node and returns
  // true.
  bool drop_own(std::uint64_t graph, format::Ref record);
  // The capture into `graph` ended.
  void end_capture(std::uint64_t graph);

  // An executable, new or updated, has from now on the nodes that `graph` has now. False when there is no room. Calls
  // gone(node) as below for those that it had.
  template <typename Gone>
  bool instantiated(std::uint64_t exec, std::uint64_t graph, Gone gone) {
    const std::uint32_t at = find(graph, kGraph);
    const std::uint32_t source = at == 0 ? 0 : root_of(at);
    if (source == 0 || owners_[source].first == 0) {
      executable_destroyed(exec, gone);
      return true;
    }
    std::uint32_t before = 0;
    const bool done = use(exec, source, &before);
    if (before != 0) leave(before, gone);
    return done;
  }
  // `child` became a part of `graph`.
  bool moved(std::uint64_t child, std::uint64_t graph);

  // Calls visit(node) for each node of an executable.
  template <typename Visit>
  void for_each(std::uint64_t exec, Visit visit) const {
    const std::uint32_t at = find(exec, kExecutable);
    if (at == 0) return;
    for (std::uint32_t node = owners_[at].first; node != 0; node = nodes_[node].next) {
      if (nodes_[node].node.record != 0) visit(nodes_[node].node);
    }
  }

  // A graph or an executable was destroyed. Calls gone(node) for each allocation that nothing can launch any more.
  template <typename Gone>
  void graph_destroyed(std::uint64_t graph, Gone gone) {
    const std::uint32_t at = find(graph, kGraph);
    if (at == 0 || owners_[at].parent != 0) return;
    forget(at);
    leave(at, gone);
  }
  template <typename Gone>
  void executable_destroyed(std::uint64_t exec, Gone gone) {
    const std::uint32_t at = find(exec, kExecutable);
    if (at == 0) return;
    const std::uint32_t graph = owners_[at].parent;
    forget(at);
    owners_.give(at);
    if (--executable_count_ == 0) executables_.store(0, std::memory_order_relaxed);
    leave(graph, gone);
  }
  // Every capture failed: the driver has destroyed the graphs that were captured.
  template <typename Gone>
  void captures_failed(Gone gone) {
    for (std::uint32_t at = 1; at < owners_.end(); ++at) {
      if (!owners_[at].captured) continue;
      forget(at);
      leave(at, gone);
    }
  }

  // Gives the memory back; empty afterwards. Not while other threads use this.
  void free_memory();

 private:
  enum Tag : std::uint32_t { kUnused = 0, kGraph = 1, kExecutable = 2, kRecord = 3 };

  struct KeptNode {
    Node node;
    std::uint32_t next;
    std::uint32_t previous;
    std::uint32_t owner;
  };
  struct Owner {
    std::uint64_t handle;
    std::uint32_t first;   // its newest node; of an executable: the newest one when it was made
    std::uint32_t next;    // while unused: the next unused one
    std::uint32_t parent;  // of an executable: its graph; of a child: the graph that it was moved into
    std::uint32_t users;   // of a graph: itself while it exists, and its executables
    Tag tag;
    bool captured;
  };

  // An array that grows and whose unused places are used again. Place 0 stays empty.
  template <typename Item>
  class Places {
   public:
    // An empty place; 0 when there is no room.
    std::uint32_t take() {
      std::uint32_t at = unused_;
      if (at != 0) {
        unused_ = items_[at].next;
      } else {
        if (end_ + 1 >= capacity_ && !grow()) return 0;
        at = ++end_;
      }
      items_[at] = {};
      return at;
    }
    void give(std::uint32_t at) {
      items_[at] = {};
      items_[at].next = unused_;
      unused_ = at;
    }
    std::uint32_t end() const { return end_ + 1; }
    Item& operator[](std::uint32_t at) { return items_[at]; }
    const Item& operator[](std::uint32_t at) const { return items_[at]; }
    void free_memory() {
      if (items_ != nullptr) unmap_private(items_, sizeof(Item) * std::uint64_t{capacity_});
      *this = {};
    }

   private:
    static constexpr std::uint32_t kMost = 1 << 20;
    bool grow() {
      const std::uint32_t capacity = capacity_ == 0 ? 128 : capacity_ * 2;
      if (capacity > kMost) return false;
      int error = 0;
      void* items = items_ == nullptr ? map_private(sizeof(Item) * std::uint64_t{capacity}, &error)
                                      : enlarge_private(items_, sizeof(Item) * std::uint64_t{capacity_},
                                                        sizeof(Item) * std::uint64_t{capacity});
      if (items == nullptr) return false;
      items_ = static_cast<Item*>(items);
      capacity_ = capacity;
      return true;
    }

    Item* items_;
    std::uint32_t capacity_;
    std::uint32_t end_;  // the last place that was ever used
    std::uint32_t unused_;
  };

  static std::uint64_t bit_of(std::uint64_t exec) { return 1ULL << (quick_hash(exec) >> 58); }

  HashIndex::Entry* entry(std::uint64_t key, Tag tag) const {
    return const_cast<HashIndex&>(index_).find(key, [&](const HashIndex::Entry& one) { return one.tag == tag; });
  }
  std::uint32_t find(std::uint64_t handle, Tag tag) const {
    const HashIndex::Entry* found = entry(handle, tag);
    return found == nullptr ? 0 : found->value;
  }
  std::uint32_t find_or_add(std::uint64_t handle, Tag tag);
  // The graph that a graph belongs to after all moves.
  std::uint32_t root_of(std::uint32_t graph) const {
    while (owners_[graph].parent != 0) graph = owners_[graph].parent;
    return graph;
  }
  // Its handle may be another one's from now on.
  void forget(std::uint32_t owner) {
    if (HashIndex::Entry* found = entry(owners_[owner].handle, owners_[owner].tag)) index_.erase(found);
  }
  void forget_record(format::Ref record, std::uint32_t node) {
    HashIndex::Entry* found = entry(record, kRecord);
    if (found != nullptr && found->value == node) index_.erase(found);
  }
  void count_owners() { any_.store(owner_count_, std::memory_order_relaxed); }

  // One user less of a graph. Without users its nodes go.
  template <typename Gone>
  void leave(std::uint32_t graph, Gone gone) {
    if (--owners_[graph].users != 0) return;
    for (std::uint32_t node = owners_[graph].first; node != 0;) {
      const std::uint32_t next = nodes_[node].next;
      const Node& kept = nodes_[node].node;
      if (kept.record != 0 && !kept.frees) {
        forget_record(kept.record, node);
        gone(kept);
      }
      nodes_.give(node);
      node = next;
    }
    remove_children(graph);
    owners_.give(graph);
    --owner_count_;
    count_owners();
  }
  void remove_children(std::uint32_t graph);
  // Gives an executable the nodes of a graph. `before`: the graph whose nodes it had.
  bool use(std::uint64_t exec, std::uint32_t graph, std::uint32_t* before);

  SpinLock lock_;
  std::atomic<std::uint32_t> any_;
  std::atomic<std::uint64_t> executables_;  // a bit for each executable, by the hash of its handle
  std::uint32_t owner_count_;               // graphs
  std::uint32_t executable_count_;
  Places<KeptNode> nodes_;
  Places<Owner> owners_;
  HashIndex index_;  // handle of a graph or an executable -> owner; record -> node
};

}  // namespace culprit
