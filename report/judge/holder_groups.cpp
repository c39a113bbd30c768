#include "report/judge/holder_groups.h"

#include <utility>

#include "report/judge/python_caches.h"
#include "report/model/stacks.h"

namespace culprit::report {

HolderGroups group_by_holder(DumpContents* contents, const Dump& dump, const StackResolver& stacks,
                             StackOwners* owners) {
  Tables tables = std::move(contents->tables);
  auto python_holders = std::make_shared<std::deque<Variable>>();
  for (Held& held : tables.held) {
    if (held.heap.step == 0) {
      held.variable = stacks.variable(held.place);
      held.assigned = stacks.assigned(held.place);
    } else {
      const StackResolver::HeapHolder holder = stacks.heap_holder(held.heap);
      held.variable = holder.variable;
      held.path = holder.path;
      held.assigned = holder.assigned;
    }
  }
  if (contents->python) add_python_holders(*contents->python, dump, stacks, owners, &tables, python_holders.get());
  if (!tables.held.empty())
    tables.allocations = group_allocations(dump, tables.held, tables.range, tables.each, tables.only_lost);
  return {std::move(tables), std::move(python_holders)};
}

}  // namespace culprit::report
