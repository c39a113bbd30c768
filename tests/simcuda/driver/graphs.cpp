// Graphs: their nodes' order and edges, copies, user objects. graph_nodes.cpp makes the nodes, graph_exec.cpp runs
// them.
#include "tests/simcuda/driver/graphs.h"

#include <algorithm>

#include "tests/simcuda/driver/call.h"

namespace simcuda {
namespace {

// Fills an array of the requested size, as all cuGraphGet... functions do.
template <typename T>
CUresult give_list(const std::vector<T>& list, T* out, std::size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = list.size();
    return CUDA_SUCCESS;
  }
  for (std::size_t i = 0; i < *count; ++i) out[i] = i < list.size() ? list[i] : T{};
  *count = std::min(*count, list.size());
  return CUDA_SUCCESS;
}

std::vector<CUgraphNode> handles_of(const std::vector<GraphNode*>& nodes) {
  std::vector<CUgraphNode> handles;
  for (GraphNode* node : nodes) handles.push_back(reinterpret_cast<CUgraphNode>(node));
  return handles;
}

CUresult change_edges(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to, std::size_t count, bool add) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || (count != 0 && (from == nullptr || to == nullptr))) return CUDA_ERROR_INVALID_VALUE;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* source = call.state().find<GraphNode>(from[i]);
    GraphNode* target = call.state().find<GraphNode>(to[i]);
    if (source == nullptr || target == nullptr || source->graph != graph || target->graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
    std::vector<GraphNode*>& list = target->dependencies;
    auto found = std::find(list.begin(), list.end(), source);
    if (add == (found != list.end())) return CUDA_ERROR_INVALID_VALUE;
    if (add) {
      list.push_back(source);
    } else {
      list.erase(found);
    }
  }
  return CUDA_SUCCESS;
}

std::vector<GraphNode*> dependents_of(const GraphNode& node) {
  std::vector<GraphNode*> dependents;
  for (GraphNode* other : node.graph->nodes) {
    const auto& list = other->dependencies;
    if (std::find(list.begin(), list.end(), &node) != list.end()) dependents.push_back(other);
  }
  return dependents;
}

CUresult edges_of(CUgraph handle, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || count == nullptr || (from == nullptr) != (to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::vector<CUgraphNode> sources, targets;
  for (GraphNode* node : graph->nodes) {
    for (GraphNode* dependency : node->dependencies) {
      sources.push_back(reinterpret_cast<CUgraphNode>(dependency));
      targets.push_back(reinterpret_cast<CUgraphNode>(node));
    }
  }
  if (from != nullptr && data != nullptr) std::fill(data, data + std::min(*count, sources.size()), CUgraphEdgeData{});
  std::size_t copy = *count;
  give_list(sources, from, &copy);
  return give_list(targets, to, count);
}

}  // namespace

Graph* clone_graph(DriverState& state, Graph& from) {
  Graph* copy = state.add(new Graph);
  copy->original = &from;
  std::map<GraphNode*, GraphNode*> copies;
  for (GraphNode* node : from.nodes) {
    GraphNode* twin = state.add(new GraphNode);
    twin->graph = copy;
    twin->work = node->work;
    twin->original = node;
    if (node->work.child != nullptr) {
      twin->work.child = clone_graph(state, *node->work.child);
      twin->work.child->owned_by_node = true;
    }
    copies[node] = twin;
    copy->nodes.push_back(twin);
  }
  for (GraphNode* node : from.nodes) {
    for (GraphNode* dependency : node->dependencies) copies[node]->dependencies.push_back(copies[dependency]);
  }
  for (auto& [object, count] : from.user_objects) {
    copy->user_objects[object] = count;
    object->references += count;
  }
  return copy;
}

GraphMemory::~GraphMemory() {
  auto found = state->graph_memory.find(address);
  if (found != state->graph_memory.end() && found->second == this) state->graph_memory.erase(found);
  if (same == nullptr) state->devices[device]->space->free(address, bytes);
}

std::shared_ptr<GraphMemory> reserve_graph_memory(DriverState& state, Graph& graph, int device, std::size_t bytes,
                                                  const std::vector<GraphNode*>& before) {
  std::shared_ptr<GraphMemory> same;
  for (GraphNode* node : before) {
    const std::shared_ptr<GraphMemory>& freed = node->work.freed_memory;
    if (freed != nullptr && freed->freed_inside && freed->device == device && freed->bytes == bytes) same = freed;
  }
  const std::uint64_t address = same != nullptr ? same->address : state.devices[device]->space->allocate(bytes, 512);
  if (address == 0) return nullptr;
  auto memory = std::make_shared<GraphMemory>();
  memory->state = &state;
  memory->device = device;
  memory->address = address;
  memory->bytes = bytes;
  memory->graph = &graph;
  memory->same = same;
  state.graph_memory[memory->address] = memory.get();
  return memory;
}

static Graph* root_of(Graph* graph) {
  while (graph != nullptr && graph->parent != nullptr) graph = graph->parent;
  return graph;
}

std::shared_ptr<GraphMemory> memory_to_free(DriverState& state, Graph& graph, std::uint64_t address) {
  auto found = state.graph_memory.find(address);
  if (found == state.graph_memory.end()) return nullptr;
  GraphMemory& memory = *found->second;
  const bool own = root_of(memory.graph) == root_of(&graph);
  if (memory.freed_inside || (own && (memory.freed_elsewhere || is_instantiated(graph)))) return nullptr;
  (own ? memory.freed_inside : memory.freed_elsewhere) = true;
  return memory.shared_from_this();
}

bool has_memory_nodes(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const GraphNode* node) {
    return node->work.memory != nullptr || node->work.freed_memory != nullptr ||
           (node->work.child != nullptr && has_memory_nodes(*node->work.child));
  });
}

bool is_instantiated(const Graph& graph) { return graph.instances.use_count() > 1; }

GraphNode* add_node(DriverState& state, Graph& graph, CUgraphNodeType type, const CUgraphNode* dependencies,
                    std::size_t count, CUresult* status) {
  *status = CUDA_ERROR_INVALID_VALUE;
  if (count != 0 && dependencies == nullptr) return nullptr;
  std::vector<GraphNode*> list;
  for (std::size_t i = 0; i < count; ++i) {
    GraphNode* dependency = state.find<GraphNode>(dependencies[i]);
    if (dependency == nullptr || dependency->graph != &graph) return nullptr;
    list.push_back(dependency);
  }
  GraphNode* node = state.add(new GraphNode);
  node->graph = &graph;
  node->work.type = type;
  node->dependencies = std::move(list);
  graph.nodes.push_back(node);
  *status = CUDA_SUCCESS;
  return node;
}

void GraphNode::release(DriverState& state) {
  if (work.child != nullptr) state.destroy(work.child);
}

void Graph::release(DriverState& state) {
  for (GraphNode* node : nodes) {
    if (node->work.memory != nullptr) node->work.memory->graph = nullptr;
  }
  for (GraphNode* node : nodes) state.destroy(node);
  for (auto& [object, count] : user_objects) release_user_object(state, object, count);
}

void release_user_object(DriverState& state, UserObject* object, std::uint64_t count) {
  object->references -= std::min(object->references, count);
  if (object->references != 0) return;
  // The destructor is the program's own code; it must not call CUDA (the documentation forbids it), so the lock may be
  // held.
  object->destroy(object->pointer);
  state.destroy(object);
}

}  // namespace simcuda

using simcuda::Graph;
using simcuda::GraphNode;
using simcuda::UserObject;

SIM(cuGraphCreate)(CUgraph* out, unsigned flags) {
  SIM_CALL(kInit);
  if (out == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = reinterpret_cast<CUgraph>(call.state().add(new Graph));
  return CUDA_SUCCESS;
}

SIM(cuGraphDestroy)(CUgraph handle) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || graph->owned_by_node) return CUDA_ERROR_INVALID_VALUE;
  call.state().destroy(graph);
  return CUDA_SUCCESS;
}

SIM(cuGraphClone)(CUgraph* out, CUgraph handle) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (simcuda::has_memory_nodes(*graph)) return CUDA_ERROR_NOT_SUPPORTED;
  *out = reinterpret_cast<CUgraph>(simcuda::clone_graph(call.state(), *graph));
  return CUDA_SUCCESS;
}

SIM(cuGraphNodeFindInClone)(CUgraphNode* out, CUgraphNode original, CUgraph handle) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (GraphNode* node : graph->nodes) {
    if (node->original != reinterpret_cast<GraphNode*>(original)) continue;
    *out = reinterpret_cast<CUgraphNode>(node);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

SIM(cuGraphDestroyNode)(CUgraphNode handle) {
  SIM_CALL(kInit);
  GraphNode* node = call.state().find<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
    return CUDA_ERROR_NOT_SUPPORTED;  // as documented: memory nodes cannot be removed
  }
  for (GraphNode* other : simcuda::dependents_of(*node)) {
    auto& list = other->dependencies;
    list.erase(std::remove(list.begin(), list.end(), node), list.end());
  }
  auto& nodes = node->graph->nodes;
  nodes.erase(std::remove(nodes.begin(), nodes.end(), node), nodes.end());
  call.state().destroy(node);
  return CUDA_SUCCESS;
}

SIM(cuGraphNodeGetType)(CUgraphNode handle, CUgraphNodeType* type) {
  SIM_CALL(kInit);
  GraphNode* node = call.state().find<GraphNode>(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *type = node->work.type;
  return CUDA_SUCCESS;
}

SIM(cuGraphGetNodes)(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::give_list(simcuda::handles_of(graph->nodes), nodes, count);
}

SIM(cuGraphGetRootNodes)(CUgraph handle, CUgraphNode* nodes, std::size_t* count) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::vector<GraphNode*> roots;
  for (GraphNode* node : graph->nodes) {
    if (node->dependencies.empty()) roots.push_back(node);
  }
  return simcuda::give_list(simcuda::handles_of(roots), nodes, count);
}

SIM(cuGraphGetEdges)(CUgraph graph, CUgraphNode* from, CUgraphNode* to, std::size_t* count) {
  return simcuda::edges_of(graph, from, to, nullptr, count);
}

SIM(cuGraphGetEdges_v2)(CUgraph graph, CUgraphNode* from, CUgraphNode* to, CUgraphEdgeData* data, std::size_t* count) {
  return simcuda::edges_of(graph, from, to, data, count);
}

SIM(cuGraphNodeGetDependencies)(CUgraphNode handle, CUgraphNode* out, std::size_t* count) {
  SIM_CALL(kInit);
  GraphNode* node = call.state().find<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::give_list(simcuda::handles_of(node->dependencies), out, count);
}

SIM(cuGraphNodeGetDependencies_v2)(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, std::size_t* count) {
  CUresult status = sim_cuGraphNodeGetDependencies(node, out, count);
  if (status == CUDA_SUCCESS && out != nullptr && data != nullptr) std::fill(data, data + *count, CUgraphEdgeData{});
  return status;
}

SIM(cuGraphNodeGetDependentNodes)(CUgraphNode handle, CUgraphNode* out, std::size_t* count) {
  SIM_CALL(kInit);
  GraphNode* node = call.state().find<GraphNode>(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return simcuda::give_list(simcuda::handles_of(simcuda::dependents_of(*node)), out, count);
}

SIM(cuGraphNodeGetDependentNodes_v2)(CUgraphNode node, CUgraphNode* out, CUgraphEdgeData* data, std::size_t* count) {
  CUresult status = sim_cuGraphNodeGetDependentNodes(node, out, count);
  if (status == CUDA_SUCCESS && out != nullptr && data != nullptr) std::fill(data, data + *count, CUgraphEdgeData{});
  return status;
}

SIM(cuGraphAddDependencies)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count) {
  return simcuda::change_edges(graph, from, to, count, true);
}

SIM(cuGraphAddDependencies_v2)
(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, std::size_t count) {
  return simcuda::change_edges(graph, from, to, count, true);
}

SIM(cuGraphRemoveDependencies)(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, std::size_t count) {
  return simcuda::change_edges(graph, from, to, count, false);
}

SIM(cuGraphRemoveDependencies_v2)
(CUgraph graph, const CUgraphNode* from, const CUgraphNode* to, const CUgraphEdgeData*, std::size_t count) {
  return simcuda::change_edges(graph, from, to, count, false);
}

SIM(cuUserObjectCreate)(CUuserObject* out, void* pointer, CUhostFn destroy, unsigned references, unsigned flags) {
  SIM_CALL(kInit);
  if (out == nullptr || destroy == nullptr || references == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  UserObject* object = call.state().add(new UserObject);
  object->pointer = pointer;
  object->destroy = destroy;
  object->references = references;
  *out = reinterpret_cast<CUuserObject>(object);
  return CUDA_SUCCESS;
}

SIM(cuUserObjectRetain)(CUuserObject handle, unsigned count) {
  SIM_CALL(kInit);
  UserObject* object = call.state().find<UserObject>(handle);
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  object->references += count;
  return CUDA_SUCCESS;
}

SIM(cuUserObjectRelease)(CUuserObject handle, unsigned count) {
  SIM_CALL(kInit);
  UserObject* object = call.state().find<UserObject>(handle);
  if (object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  simcuda::release_user_object(call.state(), object, count);
  return CUDA_SUCCESS;
}

SIM(cuGraphRetainUserObject)(CUgraph graph_handle, CUuserObject handle, unsigned count, unsigned flags) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(graph_handle);
  UserObject* object = call.state().find<UserObject>(handle);
  if (graph == nullptr || object == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  graph->user_objects[object] += count;
  if (flags != CU_GRAPH_USER_OBJECT_MOVE) object->references += count;
  return CUDA_SUCCESS;
}

SIM(cuGraphReleaseUserObject)(CUgraph graph_handle, CUuserObject handle, unsigned count) {
  SIM_CALL(kInit);
  Graph* graph = call.state().find<Graph>(graph_handle);
  UserObject* object = call.state().find<UserObject>(handle);
  if (graph == nullptr || object == nullptr || graph->user_objects[object] < count) return CUDA_ERROR_INVALID_VALUE;
  if ((graph->user_objects[object] -= count) == 0) graph->user_objects.erase(object);
  simcuda::release_user_object(call.state(), object, count);
  return CUDA_SUCCESS;
}
