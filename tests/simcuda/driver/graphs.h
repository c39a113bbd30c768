#pragma once

#include <memory>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

struct Graph;

// The memory of an allocation node. Its addresses stay reserved until node, executable graphs and allocation are gone.
struct GraphMemory : std::enable_shared_from_this<GraphMemory> {
  DriverState* state = nullptr;
  int device = 0;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
  Graph* graph = nullptr;             // of the node; nullptr: destroyed
  bool freed_inside = false;          // by a node of its own graph
  bool freed_elsewhere = false;       // by a node of another graph
  std::shared_ptr<GraphMemory> same;  // the memory that was freed before in the same graph: these are its addresses
  ~GraphMemory();
};

struct UserObject : Object {
  static constexpr ObjectType kType = ObjectType::kUserObject;
  UserObject() : Object(kType) {}

  void* pointer = nullptr;
  CUhostFn destroy = nullptr;
  std::uint64_t references = 0;
};

// The operation of a node. One struct for all types: tests look at few nodes, and copying one must stay simple.
struct NodeWork {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUDA_MEMCPY3D copy{};
  CUDA_MEMSET_NODE_PARAMS set{};
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_MEM_ALLOC_NODE_PARAMS allocation{};
  CUdeviceptr freed = 0;
  CUevent event = nullptr;
  std::shared_ptr<GraphMemory> memory;        // of an allocation node
  std::shared_ptr<GraphMemory> freed_memory;  // of a free node
  Graph* child = nullptr;                     // owned by the node
};

struct GraphNode : Object {
  static constexpr ObjectType kType = ObjectType::kGraphNode;
  GraphNode() : Object(kType) {}
  void release(DriverState& state) override;

  Graph* graph = nullptr;
  NodeWork work;
  std::vector<GraphNode*> dependencies;
  GraphNode* original = nullptr;  // in a clone
};

struct Graph : Object {
  static constexpr ObjectType kType = ObjectType::kGraph;
  Graph() : Object(kType) {}
  void release(DriverState& state) override;

  std::vector<GraphNode*> nodes;  // each after its dependencies, unless edges were added later
  std::map<UserObject*, unsigned> user_objects;
  Graph* original = nullptr;
  bool owned_by_node = false;
  Graph* parent = nullptr;  // of a child: the graph that it was moved into
  // Each executable that was made from the graph has a copy.
  std::shared_ptr<int> instances = std::make_shared<int>();
};

struct GraphExec : Object {
  static constexpr ObjectType kType = ObjectType::kGraphExec;
  GraphExec() : Object(kType) {}
  void release(DriverState& state) override;

  struct Step {
    NodeWork work;
    GraphNode* node = nullptr;  // for the SetParams functions; may be gone
    bool enabled = true;
  };
  std::vector<Step> steps;
  std::shared_ptr<int> instance;  // of its graph, which may be destroyed
  unsigned long long flags = 0;
  std::map<UserObject*, unsigned> user_objects;
  Device* device = nullptr;  // own_memory.h
  std::size_t taken = 0;     // likewise
};

// A copy with copies of the child graphs; every node remembers its original.
Graph* clone_graph(DriverState& state, Graph& from);
GraphNode* add_node(DriverState& state, Graph& graph, CUgraphNodeType type, const CUgraphNode* dependencies,
                    std::size_t count, CUresult* status);
// Reserves the addresses for an allocation node of `graph`, those of memory that one of the nodes before it frees if
// they fit. nullptr when there are none.
std::shared_ptr<GraphMemory> reserve_graph_memory(DriverState& state, Graph& graph, int device, std::size_t bytes,
                                                  const std::vector<GraphNode*>& before);
// The memory that a new node of `graph` at this address would free; nullptr when the node is refused.
std::shared_ptr<GraphMemory> memory_to_free(DriverState& state, Graph& graph, std::uint64_t address);
// Whether a graph or one of its children has nodes that allocate or free memory.
bool has_memory_nodes(const Graph& graph);
bool is_instantiated(const Graph& graph);
void release_user_object(DriverState& state, UserObject* object, std::uint64_t count);

}  // namespace simcuda
