#include "report/judge/summarise.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/judge/balances.h"
#include "report/judge/breakdowns.h"
#include "report/judge/growing_graphs.h"
#include "report/judge/notes.h"
#include "report/judge/overwritten.h"
#include "report/judge/python_caches.h"
#include "report/judge/sharings.h"
#include "report/model/record_facts.h"
#include "report/model/sum_up.h"

namespace culprit::report {

namespace {

// The difference between a function's calls that were not recorded, and those whose stacks are known, gets an entry of
// its own.
Audit read_audit(const Dump& dump, const std::vector<format::AuditRecord>& records, const StackResolver& stacks) {
  const format::Header& header = dump.header();
  Audit audit;
  audit.state = header.audit_state;
  audit.error = header.audit_error;
  if (header.audit_state == format::AuditState::kEnded) audit.end_ns = header.audit_end_ns;
  if (header.audit_state == format::AuditState::kNotAsked) return audit;
  std::map<std::string, NotRecordedCalls> others;
  for (const format::AuditRecord& record : records) {
    const std::string api(dump.string(record.function));
    if (record.stack == 0) audit.functions.push_back({api, record.calls});
    if (record.not_recorded == 0) continue;
    NotRecordedCalls& other = others[api];
    other.api = api;
    if (record.stack == 0) {
      other.count += record.not_recorded;
      other.bytes += record.bytes;
    } else {
      other.count -= record.not_recorded;
      other.bytes -= record.bytes;
      audit.not_recorded.push_back({api, record.not_recorded, record.bytes, &stacks.stack(record.stack)});
    }
  }
  for (const auto& [api, other] : others) {
    // A damaged dump, or one that is still written, may have more at the stacks than in all.
    const bool is_rest = other.count != 0 && other.count <= ~0ULL / 2;
    if (is_rest) audit.not_recorded.push_back({api, other.count, other.bytes <= ~0ULL / 2 ? other.bytes : 0, nullptr});
  }
  put_in_order(&audit);
  return audit;
}

// The view is of the last failure: of its device.
void add_caches(const PythonView& view, std::vector<Breakdown>* breakdowns) {
  if (breakdowns->empty() || !breakdowns->front().out_of_memory || !breakdowns->front().device) return;
  Breakdown& last = breakdowns->front();
  last.caches = look_inside_ran_out(view, *last.device, last.asked_bytes);
}

}  // namespace

Report summarise(DumpContents contents, const Dump& dump, std::shared_ptr<const StackResolver> stacks,
                 const HolderGroups& groups, Verdicts verdicts, StackOwners* owners, bool strict) {
  const format::Header& header = dump.header();
  Report report = std::move(contents.facts);
  for (const format::SiteRecord& site : contents.sites) {
    const ResolvedStack& stack = stacks->stack(site.stack);
    report.sites.push_back({site.site, site.number, site.calls, api_of(dump, site.api, stack), &stack});
  }
  report.audit = read_audit(dump, groups.tables.audits, *stacks);
  report.breakdowns = read_breakdowns(contents.breakdowns, dump, *stacks, owners);
  report.freed_at_end = read_freed_at_end(contents.breakdowns, dump, *stacks, owners);
  add_charges(contents.gpu_answers, &report.breakdowns);
  report.call_charges = read_call_charges(contents.call_charges, dump, *stacks);
  report.sharings = read_sharings(contents.sharings, *stacks, report);
  if (header.exit_stack != 0) report.exit_stack = &stacks->stack(header.exit_stack);
  if (contents.python) {
    report.caches_inside = look_inside_caches(*contents.python, dump, groups.tables.range, *stacks, owners);
    report.ran_out = look_inside_ran_out(*contents.python);
    add_caches(*contents.python, &report.breakdowns);
    for (const CacheInside& inside : report.caches_inside) report.live_cached_bytes += inside.live_bytes;
  }
  report.python_holders = groups.python_holders;

  report.leaks = std::move(verdicts.leaks);
  report.library = std::move(verdicts.library);
  report.resources = std::move(verdicts.resources);
  report.errors = std::move(verdicts.errors);
  report.failed_allocations = std::move(verdicts.failed_allocations);
  report.balances = read_balances(dump, report);
  mark_charges_beside_others(&report);
  report.present_use = read_present_use(dump, report, contents.call_charges);
  report.contexts = read_contexts(dump, *stacks, report);
  report.overwritten = find_overwritten(groups.tables, dump, *stacks);
  mark_growing_graphs(&report);
  report.summary.allocations = groups.tables.calls.allocations;
  report.summary.frees = groups.tables.calls.frees;
  report.summary.objects = groups.tables.calls.objects;
  report.summary.object_frees = groups.tables.calls.object_frees;
  sum_up(strict, &report);
  add_notes(header, *stacks, contents.without_view, &report);
  report.stacks = std::move(stacks);
  return report;
}

}  // namespace culprit::report
