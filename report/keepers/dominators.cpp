#include "report/keepers/dominators.h"

#include <cstddef>

namespace culprit::report {
namespace {

using Edges = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

// The neighbours of each node, by the first or the second member of the edges.
class Neighbours {
 public:
  Neighbours(std::uint32_t count, const Edges& edges, bool forward) : first_(count + 1), nodes_(edges.size()) {
    for (const auto& [from, to] : edges) ++first_[(forward ? from : to) + 1];
    for (std::size_t i = 1; i < first_.size(); ++i) first_[i] += first_[i - 1];
    std::vector<std::size_t> next(first_.begin(), first_.end() - 1);
    for (const auto& [from, to] : edges) nodes_[next[forward ? from : to]++] = forward ? to : from;
  }
  const std::uint32_t* begin(std::uint32_t node) const { return nodes_.data() + first_[node]; }
  const std::uint32_t* end(std::uint32_t node) const { return nodes_.data() + first_[node + 1]; }

 private:
  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> nodes_;
};

// Nodes are called by their number in the order of a depth-first search, as in the paper.
class Search {
 public:
  Search(std::uint32_t count, const Edges& edges) : number_(count, kNoNode) {
    visit(Neighbours(count, edges, true));
    const Neighbours before(count, edges, false);
    const std::size_t reached = node_.size();
    for (std::uint32_t i = 0; i < reached; ++i) {
      semi_.push_back(i);
      label_.push_back(i);
    }
    ancestor_.assign(reached, kNoNode);
    dominator_.assign(reached, 0);
    find(before);
  }

  std::vector<std::uint32_t> result() const {
    std::vector<std::uint32_t> dominators(number_.size(), kNoNode);
    for (std::size_t i = 1; i < node_.size(); ++i) dominators[node_[i]] = node_[dominator_[i]];
    return dominators;
  }

 private:
  void visit(const Neighbours& after) {
    struct Visit {
      std::uint32_t node;
      const std::uint32_t* next;
    };
    std::vector<Visit> stack;
    const auto enter = [&](std::uint32_t node, std::uint32_t parent) {
      number_[node] = static_cast<std::uint32_t>(node_.size());
      node_.push_back(node);
      parent_.push_back(parent);
      stack.push_back({node, after.begin(node)});
    };
    enter(0, 0);
    while (!stack.empty()) {
      Visit& top = stack.back();
      if (top.next == after.end(top.node)) {
        stack.pop_back();
        continue;
      }
      const std::uint32_t node = *top.next++;
      if (number_[node] == kNoNode) enter(node, number_[top.node]);
    }
  }

  void find(const Neighbours& before) {
    std::vector<std::vector<std::uint32_t>> bucket(node_.size());
    for (std::size_t at = node_.size(); at-- > 1;) {
      const auto one = static_cast<std::uint32_t>(at);
      for (const std::uint32_t* from = before.begin(node_[one]); from != before.end(node_[one]); ++from) {
        if (number_[*from] == kNoNode) continue;
        const std::uint32_t best = semi_[evaluate(number_[*from])];
        if (best < semi_[one]) semi_[one] = best;
      }
      bucket[semi_[one]].push_back(one);
      ancestor_[one] = parent_[one];
      for (const std::uint32_t below : bucket[parent_[one]]) {
        const std::uint32_t best = evaluate(below);
        dominator_[below] = semi_[best] < semi_[below] ? best : parent_[one];
      }
      bucket[parent_[one]].clear();
    }
    for (std::size_t i = 1; i < node_.size(); ++i) {
      if (dominator_[i] != semi_[i]) dominator_[i] = dominator_[dominator_[i]];
    }
  }

  // The node with the least semidominator on the path to the root of its tree, without the root.
  std::uint32_t evaluate(std::uint32_t one) {
    if (ancestor_[one] == kNoNode) return label_[one];
    path_.clear();
    for (std::uint32_t at = one; ancestor_[ancestor_[at]] != kNoNode; at = ancestor_[at]) path_.push_back(at);
    for (std::size_t i = path_.size(); i-- > 0;) {
      const std::uint32_t at = path_[i], above = ancestor_[at];
      if (semi_[label_[above]] < semi_[label_[at]]) label_[at] = label_[above];
      ancestor_[at] = ancestor_[above];
    }
    return label_[one];
  }

  std::vector<std::uint32_t> number_, node_, parent_, semi_, label_, ancestor_, dominator_, path_;
};

}  // namespace

std::vector<std::uint32_t> immediate_dominators(std::uint32_t count, const Edges& edges) {
  return count == 0 ? std::vector<std::uint32_t>() : Search(count, edges).result();
}

}  // namespace culprit::report
