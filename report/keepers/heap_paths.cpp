#include "report/keepers/heap_paths.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <queue>
#include <tuple>
#include <utility>

#include "report/base/words.h"

namespace culprit::report {
namespace {

// Packages with lists of the memory that they gave out, and the module with the finalizers of such memory.
constexpr const char* kKeepLists[] = {"numba.", "cupy.", "pycuda.", "rmm.", "cuda.", "weakref."};

constexpr char kItsClass[] = " -> its class";  // as in interpose/python_package/culprit/_graph.py

// A variable of the main module has a name without a dot.
HeapPaths::Step step_of_variable(const ObjectGraph& graph, const ObjectGraph::Variable& variable) {
  const std::string& name = graph.strings[variable.name];
  const bool list = !variable.local && std::any_of(std::begin(kKeepLists), std::end(kKeepLists),
                                                   [&](const char* package) { return begins_with(name, package); });
  const std::uint32_t cost = variable.local ? 2 : name.find('.') == std::string::npos ? 1 : 4;
  return {HeapPaths::kRoot, HeapPaths::node_of_object(variable.to), variable.name, cost,
          variable.native ? Reach::kLibrary
          : list          ? Reach::kList
                          : Reach::kVariable};
}

// A step that a program has no name for costs more. So do an exception's arguments, where an attribute has the same.
std::uint32_t cost_of_edge(const ObjectGraph& graph, const ObjectGraph::Edge& edge) {
  const std::string& name = graph.strings[edge.name];
  if (name.empty()) return 2;
  return name == ".args" && (graph.nodes[edge.from].flags & ObjectGraph::kException) != 0 ? 3 : 1;
}

}  // namespace

HeapPaths::HeapPaths(const ObjectGraph& graph, const std::vector<MemoryBlock>& blocks)
    : graph_(graph),
      first_block_(static_cast<std::uint32_t>(graph.nodes.size()) + 1),
      count_(first_block_ + static_cast<std::uint32_t>(blocks.size())) {
  const std::vector<Step> to_classes = add_steps(blocks);
  sort_steps();
  find_reach();
  add_classes(to_classes);
  find_dominators();
}

const ObjectGraph::Node* HeapPaths::object(std::uint32_t node) const {
  return node == kRoot || node >= first_block_ ? nullptr : &graph_.nodes[node - 1];
}

std::vector<HeapPaths::Step> HeapPaths::add_steps(const std::vector<MemoryBlock>& blocks) {
  for (const ObjectGraph::Variable& variable : graph_.variables) steps_.push_back(step_of_variable(graph_, variable));
  std::vector<Step> to_classes;
  for (const ObjectGraph::Edge& edge : graph_.edges) {
    const bool to_class = graph_.strings[edge.name] == kItsClass;
    (to_class ? to_classes : steps_).push_back({edge.from + 1, edge.to + 1, edge.name, cost_of_edge(graph_, edge)});
  }
  for (const ObjectGraph::Memory& memory : graph_.memory) {
    auto behind =
        std::upper_bound(blocks.begin(), blocks.end(), memory.address,
                         [](std::uint64_t address, const MemoryBlock& block) { return address < block.address; });
    if (behind == blocks.begin() || memory.address - std::prev(behind)->address >= std::prev(behind)->bytes) continue;
    steps_.push_back({memory.node + 1, node_of_block(static_cast<std::size_t>(behind - blocks.begin()) - 1), 0});
  }
  return to_classes;
}

void HeapPaths::add_classes(const std::vector<Step>& to_classes) {
  const std::size_t before = steps_.size();
  std::copy_if(to_classes.begin(), to_classes.end(), std::back_inserter(steps_),
               [&](const Step& step) { return reach_[step.to] != Reach::kVariable; });
  if (steps_.size() == before) return;
  sort_steps();
  find_reach();
}

void HeapPaths::sort_steps() {
  std::stable_sort(steps_.begin(), steps_.end(), [](const Step& one, const Step& other) {
    return std::tie(one.from, one.cost) < std::tie(other.from, other.cost);
  });
  first_.assign(count_ + 1, 0);
  first_by_end_.assign(count_ + 1, 0);
  for (const Step& step : steps_) {
    ++first_[step.from + 1];
    ++first_by_end_[step.to + 1];
  }
  for (std::size_t i = 1; i <= count_; ++i) {
    first_[i] += first_[i - 1];
    first_by_end_[i] += first_by_end_[i - 1];
  }
  std::vector<std::size_t> next(first_by_end_.begin(), first_by_end_.end() - 1);
  by_end_.resize(steps_.size());
  for (std::size_t i = 0; i < steps_.size(); ++i) by_end_[next[steps_[i].to]++] = i;
}

// Dijkstra's algorithm from one node, over nodes that are not reached yet. `step` leads to the node; kRoot: all
// variables of its reach.
void HeapPaths::reach_from(std::uint32_t node, const Step& step) {
  using Entry = std::tuple<std::uint64_t, std::uint32_t, const Step*>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
  queue.emplace(0, node, node == kRoot ? nullptr : &step);
  while (!queue.empty()) {
    const auto [cost, at, last] = queue.top();
    queue.pop();
    if (reach_[at] != Reach::kNone) continue;
    reach_[at] = step.reach;
    parent_[at] = last;
    for (std::size_t i = first_[at]; i < first_[at + 1]; ++i) {
      const bool is_other = at == kRoot && steps_[i].reach != step.reach;
      if (reach_[steps_[i].to] == Reach::kNone && !is_other)
        queue.emplace(cost + steps_[i].cost, steps_[i].to, &steps_[i]);
    }
  }
}

void HeapPaths::find_reach() {
  roots_.clear();
  reach_.assign(count_, Reach::kNone);
  parent_.assign(count_, nullptr);
  for (const Reach reach : {Reach::kVariable, Reach::kList, Reach::kLibrary}) {
    Step variables;
    variables.reach = reach;
    reach_[kRoot] = Reach::kNone;
    reach_from(kRoot, variables);
  }
  roots_.reserve(graph_.nodes.size());
  for (const Reach reach : {Reach::kNative, Reach::kGarbage}) {
    for (std::uint32_t node = 1; node < first_block_; ++node) {
      const ObjectGraph::Node& one = graph_.nodes[node - 1];
      if (reach_[node] != Reach::kNone || (one.flags & ObjectGraph::kStorage) != 0) continue;
      if (reach == Reach::kNative && !one.outside) continue;
      Step step;
      step.to = node;
      step.reach = reach;
      roots_.push_back(step);
      reach_from(node, roots_.back());
    }
  }
}

// An object that a variable reaches is neither C code's nor garbage, and a package's list of it counts for nothing.
bool HeapPaths::is_kept(const Step& step) const {
  const Reach from = step.from == kRoot ? step.reach : reach_[step.from];
  return from != Reach::kNone && from == reach_[step.to];
}

void HeapPaths::find_dominators() {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (const Step& step : steps_) {
    if (is_kept(step)) edges.emplace_back(step.from, step.to);
  }
  for (const Step& step : roots_) edges.emplace_back(kRoot, step.to);
  dominators_ = immediate_dominators(count_, edges);
  depth_.assign(count_, 0);
  std::vector<std::uint32_t> chain;
  for (std::uint32_t node = 1; node < count_; ++node) {
    chain.clear();
    std::uint32_t at = node;
    while (at != kRoot && dominators_[at] != kNoNode && depth_[at] == 0) {
      chain.push_back(at);
      at = dominators_[at];
    }
    std::uint32_t depth = depth_[at];
    for (std::size_t i = chain.size(); i-- > 0;) depth_[chain[i]] = ++depth;
  }
}

std::uint32_t HeapPaths::garbage_before(std::uint32_t node) const {
  for (std::size_t i = first_by_end_[node]; i < first_by_end_[node + 1]; ++i) {
    const std::uint32_t holder = steps_[by_end_[i]].from;
    if (holder != kRoot && reach_[holder] == Reach::kGarbage) return holder;
  }
  return kRoot;
}

const ObjectGraph::Node* HeapPaths::holder_in_cycle(std::uint32_t node) const {
  if (node >= first_block_) {
    const ObjectGraph::Node* found = nullptr;
    for (std::size_t i = first_by_end_[node]; i < first_by_end_[node + 1] && found == nullptr; ++i)
      found = holder_in_cycle(steps_[by_end_[i]].from);
    return found;
  }
  const std::uint32_t holder = reach_[node] == Reach::kGarbage ? node : garbage_before(node);
  if (holder == kRoot) return nullptr;
  // An object says more than the dictionary of its attributes.
  const std::uint32_t owner = graph_.strings[object(holder)->type] == "dict" ? garbage_before(holder) : kRoot;
  return object(owner == kRoot ? holder : owner);
}

HeapPaths::Path HeapPaths::path_to(std::uint32_t node) const {
  Path path;
  for (const Step* step = parent_[node]; step != nullptr; step = step->from == kRoot ? nullptr : parent_[step->from])
    path.push_back(step);
  std::reverse(path.begin(), path.end());
  return path;
}

// The steps to a tensor through the module that has it as a parameter or as a buffer; empty: there is none.
HeapPaths::Path HeapPaths::through_module(std::uint32_t tensor) const {
  for (std::size_t i = first_by_end_[tensor]; i < first_by_end_[tensor + 1]; ++i) {
    const Step& step = steps_[by_end_[i]];
    const ObjectGraph::Node* holder = object(step.from);
    if (holder == nullptr || (holder->flags & ObjectGraph::kParameters) == 0 || reach_[step.from] != Reach::kVariable)
      continue;
    Path path = path_to(step.from);
    path.push_back(&step);
    return path;
  }
  return {};
}

HeapPaths::Path HeapPaths::path_as_parameter(std::uint32_t block_node) const {
  for (std::size_t i = first_by_end_[block_node]; i < first_by_end_[block_node + 1]; ++i) {
    const Step& last = steps_[by_end_[i]];
    Path path = through_module(last.from);
    if (path.empty()) continue;
    path.push_back(&last);
    return path;
  }
  return {};
}

HeapPaths::Path HeapPaths::path_as_gradient(std::uint32_t block_node) const {
  for (std::size_t i = first_by_end_[block_node]; i < first_by_end_[block_node + 1]; ++i) {
    const Step& last = steps_[by_end_[i]];
    for (std::size_t k = first_by_end_[last.from]; k < first_by_end_[last.from + 1]; ++k) {
      const Step& step = steps_[by_end_[k]];
      if (graph_.strings[step.name] != ".grad") continue;
      Path path = through_module(step.from);
      if (path.empty()) continue;
      path.push_back(&step);
      path.push_back(&last);
      return path;
    }
  }
  return {};
}

bool HeapPaths::dominates(std::uint32_t above, std::uint32_t below) const {
  while (depth_[below] > depth_[above]) below = dominators_[below];
  return below == above;
}

HeapPaths::Path HeapPaths::ways_between(std::uint32_t above, std::uint32_t below) const {
  std::vector<bool> before(count_), seen(count_);
  std::vector<std::uint32_t> queue = {below};
  before[below] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    if (queue[i] == above) continue;
    for (std::size_t k = first_by_end_[queue[i]]; k < first_by_end_[queue[i] + 1]; ++k) {
      const Step& step = steps_[by_end_[k]];
      if (!is_kept(step) || before[step.from]) continue;
      before[step.from] = true;
      queue.push_back(step.from);
    }
  }
  Path found;
  queue = {above};
  seen[above] = true;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (std::size_t k = first_[queue[i]]; k < first_[queue[i] + 1]; ++k) {
      const Step& step = steps_[k];
      if (!is_kept(step) || !before[step.to]) continue;
      if (step.from == kRoot || !graph_.strings[step.name].empty()) {
        found.push_back(&step);
      } else if (!seen[step.to]) {
        seen[step.to] = true;
        queue.push_back(step.to);
      }
    }
  }
  std::stable_sort(found.begin(), found.end(), [&](const Step* one, const Step* other) {
    return std::tie(one->cost, graph_.strings[one->name]) < std::tie(other->cost, graph_.strings[other->name]);
  });
  return found;
}

bool HeapPaths::has_several_holders(std::uint32_t node) const {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> holders;  // of variables: their names
  for (std::size_t i = first_by_end_[node]; i < first_by_end_[node + 1]; ++i) {
    const Step& step = steps_[by_end_[i]];
    if (is_kept(step) && !dominates(node, step.from))
      holders.emplace_back(step.from, step.from == kRoot ? step.name : 0);
  }
  std::sort(holders.begin(), holders.end());
  return std::unique(holders.begin(), holders.end()) - holders.begin() > 1;
}

}  // namespace culprit::report
