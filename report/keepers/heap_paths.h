// The shortest path from a variable of the program to each object and to each block of memory, and the dominators on
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/keepers/dominators.h"
#include "report/load/object_graph.h"

namespace culprit::report {

struct MemoryBlock {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
};

// From where an object is reached. Objects that a variable reaches come first, then those that only a package's own
// list of memory has, or a variable of a library; what C code reaches besides is C code's.
enum class Reach : std::uint8_t { kNone, kVariable, kList, kLibrary, kNative, kGarbage };

class HeapPaths {
 public:
  struct Step {
    std::uint32_t from = 0, to = 0;
    std::uint32_t name = 0;      // a string of the graph
    std::uint32_t cost = 1;      // a path with a lower sum reads better
    Reach reach = Reach::kNone;  // of its end; a step from the root: of what it makes reachable
  };
  using Path = std::vector<const Step*>;
  // `blocks`: sorted by address, without overlaps. The graph must outlive the object.
  HeapPaths(const ObjectGraph& graph, const std::vector<MemoryBlock>& blocks);

  const ObjectGraph& graph() const { return graph_; }
  static constexpr std::uint32_t kRoot = 0;
  // `object`: an index into the graph's nodes.
  static constexpr std::uint32_t node_of_object(std::uint32_t object) { return object + 1; }
  std::uint32_t node_of_block(std::size_t block) const { return first_block_ + static_cast<std::uint32_t>(block); }
  // The object; nullptr: the root, or a block.
  const ObjectGraph::Node* object(std::uint32_t node) const;

  Reach reach(std::uint32_t node) const { return reach_[node]; }
  // The steps from the root to a node; empty: it is not reached.
  Path path_to(std::uint32_t node) const;
  // The same for a block that is a module's parameter or buffer, or the gradient of one, through that module; empty: it
  // is none.
  Path path_as_parameter(std::uint32_t block_node) const;
  Path path_as_gradient(std::uint32_t block_node) const;
  // Whether `above` lies on each path from the root to `below`.
  bool dominates(std::uint32_t above, std::uint32_t below) const;
  std::uint32_t dominator_of(std::uint32_t node) const { return dominators_[node]; }
  // The first steps with a name after `above` on the ways from it to `below`, in the order of their costs. `above`
  // dominates `below`.
  Path ways_between(std::uint32_t above, std::uint32_t below) const;
  // An object that has a reference to this node, or is it, and that only garbage reaches; nullptr: there is none. Of a
  // block: to an object that has it.
  const ObjectGraph::Node* holder_in_cycle(std::uint32_t node) const;
  // Whether more than one object that is not kept by this node has a reference to it.
  bool has_several_holders(std::uint32_t node) const;

 private:
  Path through_module(std::uint32_t tensor) const;
  // The first object that has a reference to the node and that only garbage reaches; kRoot: there is none.
  std::uint32_t garbage_before(std::uint32_t node) const;
  // Returns the steps from instances to their classes, which are not added.
  std::vector<Step> add_steps(const std::vector<MemoryBlock>& blocks);
  // Adds those to classes that no variable reaches, as of a class that a function made.
  void add_classes(const std::vector<Step>& to_classes);
  void sort_steps();
  void reach_from(std::uint32_t node, const Step& step);
  void find_reach();
  void find_dominators();
  bool is_kept(const Step& step) const;

  const ObjectGraph& graph_;
  std::uint32_t first_block_, count_;
  std::vector<Step> steps_;                // sorted by `from`
  std::vector<std::size_t> first_;         // the first step from each node
  std::vector<std::size_t> by_end_;        // indices of steps, sorted by `to`
  std::vector<std::size_t> first_by_end_;  // the first in by_end_ of each node
  std::vector<Reach> reach_;
  std::vector<const Step*> parent_;  // the last step of the shortest path
  std::vector<Step> roots_;          // from the root to what no variable reaches; does not grow after find_reach()
  std::vector<std::uint32_t> dominators_, depth_;
};

}  // namespace culprit::report
