#include "report/load/dump_contents.h"

#include "report/load/read_facts.h"
#include "report/model/marks.h"

namespace culprit::report {

DumpContents read_contents(const Dump& dump, const MachineFacts& machine, const std::string& since_mark, bool each) {
  DumpContents contents;
  // The facts come first: a process that ends meanwhile is reported as running, with the allocations of that moment.
  contents.facts = read_facts(dump, machine);
  contents.facts.since_mark = since_mark;
  if (!since_mark.empty()) contents.facts.since_mark_ns = time_of_mark(contents.facts.marks, since_mark);
  // A process without the mark is not left out: all its events count.
  contents.tables = read_tables(dump, contents.facts.since_mark_ns.value_or(0), each);
  contents.sites = dump.sites();
  contents.breakdowns = dump.breakdowns();
  contents.call_charges = dump.call_charges();
  contents.sharings = dump.sharings();
  std::string problem;
  contents.python = read_python_view(dump.path(), &problem);
  contents.without_view = !contents.python && problem.empty();
  if (!problem.empty()) contents.facts.notes.push_back(problem);
  problem.clear();
  contents.gpu_answers = read_gpu_answers(dump, &problem);
  if (!problem.empty()) contents.facts.notes.push_back(problem);
  return contents;
}

std::vector<format::Ref> stacks_of(const DumpContents& contents, const Dump& dump) {
  std::vector<format::Ref> stacks = stacks_of(contents.tables, dump);
  for (const format::SiteRecord& site : contents.sites) stacks.push_back(site.stack);
  if (dump.header().exit_stack != 0) stacks.push_back(dump.header().exit_stack);
  for (const format::CallChargeRecord& charge : contents.call_charges) stacks.push_back(charge.stack);
  for (const format::SharingRecord& sharing : contents.sharings)
    stacks.insert(stacks.end(), {sharing.stack, sharing.export_stack, sharing.end_stack});
  for (const format::ContextRecord& context : dump.contexts()) stacks.push_back(context.stack);
  for (const format::BreakdownRecord& record : contents.breakdowns) {
    stacks.push_back(record.stack);
    for (const format::BreakdownShare& share : record.shares) stacks.push_back(share.stack);
  }
  return stacks;
}

}  // namespace culprit::report
