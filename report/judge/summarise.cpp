#include "report/judge/summarise.h"

#include <utility>

#include "report/judge/balances.h"
#include "report/judge/notes.h"
#include "report/judge/pictures.h"
#include "report/model/record_facts.h"
#include "report/model/summary.h"

namespace culprit::report {

Report summarise(DumpContents contents, const Dump& dump, std::shared_ptr<const StackResolver> stacks,
                 const HolderGroups& groups, Verdicts verdicts, bool strict) {
  const format::Header& header = dump.header();
  Report report = std::move(contents.facts);
  for (const format::SiteRecord& site : contents.sites) {
    const ResolvedStack& stack = stacks->stack(site.stack);
    report.sites.push_back({site.site, site.number, site.calls, api_of(dump, site.api, stack), &stack});
  }
  report.pictures = read_pictures(contents.pictures, dump, *stacks);
  report.bills = read_bills(contents.bills, dump, *stacks);
  if (header.exit_stack != 0) report.exit_stack = &stacks->stack(header.exit_stack);
  if (contents.python) {
    report.caches_inside = look_inside_caches(*contents.python, dump, groups.tables.since_ns);
    report.ran_out = look_inside_ran_out(*contents.python);
    for (const CacheInside& inside : report.caches_inside) report.live_cached_bytes += inside.live_bytes;
  }
  report.python_holders = groups.python_holders;

  report.leaks = std::move(verdicts.leaks);
  report.library = std::move(verdicts.library);
  report.resources = std::move(verdicts.resources);
  report.errors = std::move(verdicts.errors);
  report.failed_allocations = std::move(verdicts.failed_allocations);
  report.balances = read_balances(dump, report);
  report.contexts = read_contexts(dump, *stacks, report);
  report.summary.allocations = groups.tables.calls.allocations;
  report.summary.frees = groups.tables.calls.frees;
  report.summary.objects = groups.tables.calls.objects;
  report.summary.object_frees = groups.tables.calls.object_frees;
  sum_up(strict, &report);
  add_notes(header, *stacks, &report);
  report.stacks = std::move(stacks);
  return report;
}

}  // namespace culprit::report
