#include "report/judge/holder_groups.h"

#include <utility>

#include "report/judge/python_holders.h"
#include "report/model/stacks.h"

namespace culprit::report {

HolderGroups group_by_holder(DumpContents* contents, const Dump& dump, const StackResolver& stacks,
                             StackOwners* owners) {
  Tables tables = std::move(contents->tables);
  auto python_holders = std::make_shared<std::deque<Variable>>();
  for (Held& held : tables.held) {
    const StackResolver::Holder holder =
        held.heap.step == 0 ? stacks.variable(held.place) : stacks.heap_holder(held.heap);
    // A chunk without types may have old words that point anywhere.
    const bool middle = (held.place & format::kHolderMiddle) != 0;
    if (middle && held.heap.step != 0 && holder.variable != nullptr && !holder.variable->typed) continue;
    held.variable = holder.variable;
    held.path = holder.path;
    held.assigned = holder.assigned;
  }
  if (contents->python) add_python_holders(*contents->python, dump, stacks, owners, &tables, python_holders.get());
  if (!tables.held.empty())
    tables.allocations = group_allocations(dump, tables.held, tables.range, tables.each, tables.only_lost);
  return {std::move(tables), std::move(python_holders)};
}

}  // namespace culprit::report
