#include "report/load/dump_contents.h"

#include <utility>

#include "report/load/read_facts.h"
#include "report/model/marks.h"

namespace culprit::report {

namespace {

// The range of the events that the marks leave. A process without a mark is not left out: all its events count.
TimeRange range_of(const Report& facts) {
  TimeRange range;
  if (facts.since_mark.time_ns) range.since_ns = *facts.since_mark.time_ns;
  if (facts.before_mark.time_ns) range.before_ns = *facts.before_mark.time_ns;
  return range;
}

void add_marked(const Dump& dump, const KeptMarkSums& kept, Report* facts) {
  facts->marked_taken = kept.taken;
  for (const MarkSums& sums : kept.sums) {
    MarkedMemory marked;
    format::MarkRecord mark;
    if (dump.mark(sums.mark, &mark)) marked.name = dump.string(mark.name);
    marked.number = sums.number;
    marked.time_ns = sums.time_ns;
    marked.bytes = marked.other_bytes = sums.other_bytes;
    marked.count = marked.other_count = sums.other_count;
    for (const format::MarkSumShare& share : sums.shares) {
      marked.bytes += share.bytes;
      marked.count += share.count;
    }
    facts->marked.push_back(std::move(marked));
  }
}

}  // namespace

DumpContents read_contents(const Dump& dump, const MachineFacts& machine, const ContentOptions& options) {
  DumpContents contents;
  // The facts come first: a process that ends meanwhile is reported as running, with the allocations of that moment.
  contents.facts = read_facts(dump, machine);
  Report& facts = contents.facts;
  if (!options.since_mark.empty()) facts.since_mark = find_mark(facts.marks, options.since_mark);
  if (!options.before_mark.empty()) facts.before_mark = find_mark(facts.marks, options.before_mark);
  contents.tables = read_tables(dump, range_of(facts), options.each, options.only_lost);
  contents.mark_sums = read_mark_sums(dump);
  contents.marked = options.marked;
  add_marked(dump, contents.mark_sums, &facts);
  contents.sites = dump.sites();
  contents.breakdowns = dump.breakdowns();
  contents.call_charges = dump.call_charges();
  contents.sharings = dump.sharings();
  std::string problem;
  contents.python = read_python_view(dump.path(), &problem);
  contents.without_view = !contents.python && problem.empty();
  if (!problem.empty()) contents.facts.notes.push_back(problem);
  problem.clear();
  if (contents.python) {
    for (const std::string& reason : contents.python->all_unread())
      contents.facts.notes.push_back("what lives inside the caches is not completely known: " + reason);
  }
  contents.gpu_answers = read_gpu_answers(dump, &problem);
  if (!problem.empty()) contents.facts.notes.push_back(problem);
  return contents;
}

std::vector<format::Ref> stacks_of(const DumpContents& contents, const Dump& dump) {
  std::vector<format::Ref> stacks = stacks_of(contents.tables, dump);
  for (const format::SiteRecord& site : contents.sites) stacks.push_back(site.stack);
  if (dump.header().exit_stack != 0) stacks.push_back(dump.header().exit_stack);
  for (const format::CallChargeRecord& charge : contents.call_charges) stacks.push_back(charge.stack);
  if (contents.marked) {
    for (const MarkSums& sums : contents.mark_sums.sums) {
      for (const format::MarkSumShare& share : sums.shares) stacks.push_back(share.stack);
    }
  }
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
