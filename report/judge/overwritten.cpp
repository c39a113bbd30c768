#include "report/judge/overwritten.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

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
    Overwritten found;
    found.place = place_of(*held.assigned);
    found.variable = held.holder->name + held.assigned->path;
    found.module = held.holder->module->path;
    found.stack = &stacks.stack(held.stack);
    found.api = api_of(dump, held.api, *found.stack);
    found.device = device_of(held.device);
    found.first_ns = found.last_ns = held.first_ns;
    for (const AllocationGroup* group : line.lost) {
      found.count += group->count;
      found.bytes += group->bytes;
      found.first_ns = std::min(found.first_ns, group->first_ns);
    }
    list.push_back(std::move(found));
  }
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
