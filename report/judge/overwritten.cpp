#include "report/judge/overwritten.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>

#include "report/model/frame_order.h"
#include "report/model/frames.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

// The live allocations of one line.
struct Line {
  const AllocationGroup* held = nullptr;
  std::vector<const AllocationGroup*> lost;
  bool has_others = false;  // a second holder, or memory of which it is not known who has it

  void add(const AllocationGroup& group) {
    const bool lost_directly = group.lost == group.count && group.lost_indirectly == 0;
    if (group.holder != nullptr && held == nullptr && group.count == 1) {
      held = &group;
    } else if (group.holder != nullptr || !lost_directly) {
      has_others = true;
    } else if (group.evidence == 0 && !group.free_failed) {
      lost.push_back(&group);
    }
  }

  bool was_overwritten() const {
    if (has_others || held == nullptr || held->assigned == nullptr || lost.empty()) return false;
    if ((held->holder_place & format::kHolderMiddle) != 0 || held->threads.size() != 1) return false;
    return std::all_of(lost.begin(), lost.end(), [this](const AllocationGroup* group) {
      return group->last_ns <= held->first_ns && group->threads == held->threads;
    });
  }
};

OverwrittenPlace place_of(const AssignedPlace& assigned) {
  if (assigned.keyed) return OverwrittenPlace::kValue;
  return assigned.in_heap ? OverwrittenPlace::kMember : OverwrittenPlace::kVariable;
}

// Fills in what is the same for all places. `stack`: of the allocation that the variable has.
Overwritten overwritten_at(const Dump& dump, const ResolvedStack& stack, std::uint16_t api, std::uint8_t device,
                           std::uint64_t last_ns) {
  Overwritten found;
  found.stack = &stack;
  found.api = api_of(dump, api, stack);
  found.device = device_of(device);
  found.first_ns = found.last_ns = last_ns;
  return found;
}

void add_lost(const AllocationGroup& group, Overwritten* found) {
  found->count += group.lost;
  found->bytes += group.bytes;
  found->first_ns = std::min(found->first_ns, group.first_ns);
}

// The allocations of one stack, of which one is left.
struct Rest {
  std::vector<const AllocationGroup*> groups;
  std::uint64_t left = 0;
  bool has_others = false;

  void add(const AllocationGroup& group, const LastHeld& held) {
    groups.push_back(&group);
    left += group.count - group.lost;
    has_others = has_others || group.lost_indirectly != 0 || group.holder != nullptr || group.evidence != 0 ||
                 group.free_failed || group.threads != std::vector<std::uint32_t>{held.record.thread} ||
                 group.last_ns > held.record.time_ns;
  }
};

// Where one allocation is held: a variable of data, else the one of the outermost function.
bool name_place(const std::vector<LastHeld>& list, std::size_t begin, std::size_t end, const StackResolver& stacks,
                Overwritten* found) {
  std::uint32_t depth = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const LastHeld& held = list[i];
    if (!held.local) {
      const StackResolver::Holder holder = stacks.variable(held.data);
      if (holder.variable == nullptr || holder.assigned == nullptr || holder.variable->name.empty()) continue;
      found->place = OverwrittenPlace::kVariable;
      found->variable = holder.variable->name + holder.assigned->path;
      found->function.clear();
      found->module = holder.variable->module->path;
      return true;
    }
    const StackResolver::Local* local = stacks.local(*held.local);
    if (local == nullptr || (depth != 0 && held.depth >= depth)) continue;
    depth = held.depth;
    found->place = local->in_block ? OverwrittenPlace::kInBlock : OverwrittenPlace::kLocal;
    found->variable = local->path;
    found->function = local->function;
    found->module = local->module->path;
  }
  return depth != 0;
}

// Allocations whose place the search for lost memory found.
void add_last_held(const Tables& tables, const Dump& dump, const StackResolver& stacks,
                   std::vector<Overwritten>* list) {
  const std::vector<LastHeld>& all = tables.last_held;
  std::unordered_map<format::Ref, std::vector<const AllocationGroup*>> groups;  // by stack
  for (const LastHeld& held : all) groups[held.record.stack];
  for (const AllocationGroup& group : tables.allocations) {
    const auto at = groups.find(group.stack);
    if (at != groups.end()) at->second.push_back(&group);
  }
  for (std::size_t begin = 0, end = 0; begin < all.size(); begin = end) {
    const LastHeld& held = all[begin];
    while (end < all.size() && all[end].allocation == held.allocation) ++end;
    Rest rest;
    for (const AllocationGroup* group : groups[held.record.stack]) rest.add(*group, held);
    // A scan lists what is lost alone.
    const std::uint64_t left = tables.only_lost ? 0 : 1;
    Overwritten found =
        overwritten_at(dump, stacks.stack(held.record.stack), held.record.api, held.record.device, held.record.time_ns);
    if (rest.groups.empty() || rest.has_others || rest.left != left || !name_place(all, begin, end, stacks, &found))
      continue;
    for (const AllocationGroup* group : rest.groups) add_lost(*group, &found);
    if (left != 0) found.bytes -= std::min(found.bytes, held.record.bytes);
    if (found.count != 0) list->push_back(std::move(found));
  }
}

}  // namespace

std::vector<Overwritten> find_overwritten(const Tables& tables, const Dump& dump, const StackResolver& stacks) {
  const std::vector<AllocationGroup>& groups = tables.allocations;
  if (std::none_of(groups.begin(), groups.end(), [](const AllocationGroup& group) { return group.lost != 0; }))
    return {};
  // A compiler may unroll a loop, which gives one line several stacks.
  using Key = std::tuple<format::Kind, std::uint16_t, std::vector<std::uint32_t>>;
  std::map<Key, Line> lines;
  for (const AllocationGroup& group : groups) {
    std::vector<std::uint32_t> code;
    for (const Frame* frame : stacks.stack(group.stack).frames) code.push_back(frame->code);
    if (!code.empty()) lines[{group.kind, group.api, std::move(code)}].add(group);
  }
  std::vector<Overwritten> list;
  for (const auto& [key, line] : lines) {
    if (!line.was_overwritten()) continue;
    const AllocationGroup& held = *line.held;
    Overwritten found = overwritten_at(dump, stacks.stack(held.stack), held.api, held.device, held.first_ns);
    found.place = place_of(*held.assigned);
    found.variable = held.holder->name + held.assigned->path;
    found.module = held.holder->module->path;
    for (const AllocationGroup* group : line.lost) add_lost(*group, &found);
    list.push_back(std::move(found));
  }
  add_last_held(tables, dump, stacks, &list);
  std::sort(list.begin(), list.end(), [](const Overwritten& left, const Overwritten& right) {
    const auto order = [](const Overwritten& one) {
      return std::make_tuple(~one.bytes, std::cref(one.variable), one.first_ns);
    };
    if (order(left) != order(right)) return order(left) < order(right);
    return precedes(left.stack, right.stack);
  });
  return list;
}

}  // namespace culprit::report
