#include "report/judge/python_holders.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "report/judge/by_address.h"
#include "report/judge/stack_owners.h"
#include "report/keepers/heap_paths.h"
#include "report/keepers/keeper_words.h"
#include "report/load/object_graph.h"
#include "report/load/python_view.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

template <typename List>
bool has_address(const List& list, std::uint64_t address) {
  const auto at = at_or_above(list, address);
  return at != list.end() && at->address == address;
}

// How good an answer a holder is, the best first.
enum class HolderRank { kVariable, kGarbage, kList };

// The name of an object that has an address, by address: of the shortest way from a variable of the program, or of a
// reference cycle. A package's own list has each address, and is named where nothing else has it.
class NamedAddresses {
 public:
  explicit NamedAddresses(const ObjectGraph& graph) : paths_(graph, {}) {
    // An array says more than a number in it, where both are as good.
    for (const ObjectGraph::Memory& memory : graph.memory) add(memory.node, memory.address);
    for (const ObjectGraph::Raw& raw : graph.raw) add(raw.node, raw.address);
  }

  std::map<std::uint64_t, std::string> names() const {
    std::map<std::uint64_t, std::string> found;
    for (const auto& [address, holder] : holders_) {
      found[address] = holder.rank == HolderRank::kGarbage
                           ? "a reference cycle with a " + paths_.graph().strings[holder.type] +
                                 " that no variable reaches (gc.collect() frees it)"
                           : words_of(paths_, holder.way, 0).text;
    }
    return found;
  }

 private:
  struct Holder {
    HolderRank rank = HolderRank::kList;
    HeapPaths::Path way;
    std::uint32_t type = 0;  // in a reference cycle: of the object, a string of the graph
  };

  void add(std::uint32_t object, std::uint64_t address) {
    const std::uint32_t node = HeapPaths::node_of_object(object);
    const Reach reach = paths_.reach(node);
    if (reach == Reach::kVariable) take(address, {HolderRank::kVariable, paths_.path_to(node)});
    if (reach == Reach::kList) take(address, {HolderRank::kList, paths_.path_to(node)});
    const ObjectGraph::Node* cycle = paths_.holder_in_cycle(node);
    if (cycle != nullptr) take(address, {HolderRank::kGarbage, {}, cycle->type});
  }

  void take(std::uint64_t address, Holder holder) {
    const auto [at, is_new] = holders_.try_emplace(address, std::move(holder));
    if (is_new) return;
    Holder& best = at->second;
    if (std::make_tuple(holder.rank, holder.way.size()) < std::make_tuple(best.rank, best.way.size()))
      best = std::move(holder);
  }

  HeapPaths paths_;
  std::map<std::uint64_t, Holder> holders_;
};

// Finds the holder of an allocation in a view.
class PythonHolders {
 public:
  PythonHolders(const PythonView& view, const StackResolver& stacks, StackOwners* owners)
      : view_(view), stacks_(stacks), owners_(*owners) {
    if (view.graph != nullptr) by_address_ = NamedAddresses(*view.graph).names();
  }

  // nullptr: no object holds it, or it belongs to a caching allocator.
  const std::string* of(const format::AllocationRecord& record) const {
    const auto at = at_or_above(view_.objects, record.handle);
    const bool listed = at != view_.objects.end() && at->address == record.handle && at->bytes <= record.bytes;
    const auto named = by_address_.find(record.handle);
    if ((!listed && named == by_address_.end()) || has_address(view_.segments, record.handle) ||
        owners_.pool(stacks_.stack(record.stack)) != nullptr)
      return nullptr;
    return named != by_address_.end() ? &named->second : &at->holders.front();
  }

 private:
  const PythonView& view_;
  const StackResolver& stacks_;
  StackOwners& owners_;
  std::map<std::uint64_t, std::string> by_address_;
};

}  // namespace

void add_python_holders(const PythonView& view, const Dump& dump, const StackResolver& stacks, StackOwners* owners,
                        Tables* tables, std::deque<Variable>* variables) {
  static const Module kPython = [] {
    Module module;
    module.path = module.name = "Python";
    return module;
  }();
  const PythonHolders holders(view, stacks, owners);
  std::map<std::string, const Variable*> known;
  dump.for_each_allocation([&](const format::AllocationRecord& record, format::Ref ref) {
    const std::string* holder = holders.of(record);
    if (holder == nullptr) return;
    const Variable*& variable = known[*holder];
    if (variable == nullptr) {
      variables->push_back({&kPython, *holder, 0, true});
      variable = &variables->back();
    }
    tables->held.push_back({ref, record.state >> format::kStateBits, 0, variable});
  });
  // For memory that a global holds, too, the global comes first, and what leads to it through the heap last.
  std::stable_sort(tables->held.begin(), tables->held.end(), [](const Held& left, const Held& right) {
    return std::make_tuple(left.allocation, left.heap.step != 0) <
           std::make_tuple(right.allocation, right.heap.step != 0);
  });
}

}  // namespace culprit::report
