#pragma once

#include <memory>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

struct Graph;

// The addresses of a memory allocation node; they stay reserved until node, executable graphs and allocation are gone.
struct GraphMemory {
  AddressSpace* space = nullptr;
  int device = 0;
  std::uint64_t address = 0;
  std::size_t bytes = 0;
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
  std::shared_ptr<GraphMemory> memory;
  Graph* child = nullptr;  // owned by the node
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
  unsigned long long flags = 0;
  std::map<UserObject*, unsigned> user_objects;
  Device* device = nullptr;  // own_memory.h
  std::size_t taken = 0;     // likewise
};

// A copy with copies of the child graphs; every node remembers its original.
Graph* clone_graph(DriverState& state, Graph& from);
GraphNode* add_node(DriverState& state, Graph& graph, CUgraphNodeType type, const CUgraphNode* dependencies,
                    std::size_t count, CUresult* status);
// Reserves the addresses for an allocation node. nullptr when there are none.
std::shared_ptr<GraphMemory> reserve_graph_memory(DriverState& state, int device, std::size_t bytes);
void release_user_object(DriverState& state, UserObject* object, std::uint64_t count);

}  // namespace simcuda
