#include "interpose/dump/graph_nodes.h"

namespace culprit {

using format::Ref;

std::uint32_t GraphNodes::find_or_add(std::uint64_t handle, Tag tag) {
  std::uint32_t at = find(handle, tag);
  if (at != 0) return at;
  at = owners_.take();
  if (at == 0) return 0;
  std::uint32_t replaced = 0;
  if (!index_.put(handle, at, tag, &replaced)) {
    owners_.give(at);
    return 0;
  }
  owners_[at].handle = handle;
  owners_[at].tag = tag;
  if (tag == kGraph) {
    owners_[at].users = 1;
    ++owner_count_;
    count_owners();
  }
  return at;
}

bool GraphNodes::add(std::uint64_t graph, const Node& node, bool captured) {
  const std::uint32_t named = find_or_add(graph, kGraph);
  if (named == 0) return false;
  const std::uint32_t owner = root_of(named);
  const std::uint32_t at = nodes_.take();
  if (at == 0) return false;
  std::uint32_t replaced = 0;
  if (!node.frees && !index_.put(node.record, at, kRecord, &replaced)) {
    nodes_.give(at);
    return false;
  }
  const std::uint32_t first = owners_[owner].first;
  nodes_[at] = {node, first, 0, owner};
  if (first != 0) nodes_[first].previous = at;
  owners_[owner].first = at;
  if (captured) owners_[named].captured = true;
  return true;
}

bool GraphNodes::drop_own(std::uint64_t graph, Ref record) {
  const std::uint32_t named = find(graph, kGraph);
  const std::uint32_t at = find(record, kRecord);
  if (named == 0 || at == 0 || nodes_[at].owner != root_of(named)) return false;
  const KeptNode kept = nodes_[at];
  // An executable walks this list from a node that it names. The driver adds no such node while there is one.
  if (owners_[kept.owner].users != 1) return false;
  forget_record(record, at);
  if (kept.next != 0) nodes_[kept.next].previous = kept.previous;
  if (kept.previous != 0) {
    nodes_[kept.previous].next = kept.next;
  } else {
    owners_[kept.owner].first = kept.next;
  }
  nodes_.give(at);
  return true;
}

void GraphNodes::end_capture(std::uint64_t graph) {
  const std::uint32_t at = find(graph, kGraph);
  if (at != 0) owners_[at].captured = false;
}

bool GraphNodes::use(std::uint64_t exec, std::uint32_t graph, std::uint32_t* before) {
  const std::uint32_t at = find_or_add(exec, kExecutable);
  if (at == 0) return false;
  *before = owners_[at].parent;
  if (*before == 0) ++executable_count_;
  owners_[at].parent = graph;
  owners_[at].first = owners_[graph].first;
  ++owners_[graph].users;
  executables_.fetch_or(bit_of(exec), std::memory_order_relaxed);
  return true;
}

bool GraphNodes::moved(std::uint64_t child, std::uint64_t graph) {
  const std::uint32_t from = find(child, kGraph);
  if (from == 0 || owners_[from].parent != 0) return true;
  const std::uint32_t named = find_or_add(graph, kGraph);
  if (named == 0) return false;
  const std::uint32_t to = root_of(named);
  if (to == from) return true;
  std::uint32_t last = 0;
  for (std::uint32_t node = owners_[from].first; node != 0; node = nodes_[node].next) {
    nodes_[node].owner = to;
    last = node;
  }
  if (last != 0) {
    const std::uint32_t first = owners_[to].first;
    nodes_[last].next = first;
    if (first != 0) nodes_[first].previous = last;
    owners_[to].first = owners_[from].first;
  }
  owners_[from].first = 0;
  owners_[from].parent = to;
  return true;
}

void GraphNodes::remove_children(std::uint32_t graph) {
  for (std::uint32_t at = 1; at < owners_.end(); ++at) {
    if (owners_[at].tag != kGraph || owners_[at].parent != graph) continue;
    forget(at);
    remove_children(at);
    owners_.give(at);
    --owner_count_;
  }
}

void GraphNodes::free_memory() {
  nodes_.free_memory();
  owners_.free_memory();
  index_.free_memory();
}

}  // namespace culprit
