#include "report/dump/tables.h"

#include <algorithm>

namespace culprit::report {

using namespace format;

namespace {

constexpr std::int32_t kOutOfMemory = 2;  // CUDA_ERROR_OUT_OF_MEMORY

// Drops the records whose last event was before the range, or whose first one was after it.
template <typename Record, typename Time>
void drop_outside(const TimeRange& range, std::vector<Record>* records, Time first, Time last) {
  const auto is_outside = [&](const Record& record) {
    return record.*last < range.since_ns || (!range.has(record.*first) && record.*first >= range.since_ns);
  };
  records->erase(std::remove_if(records->begin(), records->end(), is_outside), records->end());
}

// Allocations that failed, and other calls that failed for want of memory: a launch, an instantiation, new code.
std::vector<FailedCallRecord> failed_allocations(const Dump& dump) {
  std::vector<FailedCallRecord> calls = dump.failed_calls();
  const auto is_other = [](const FailedCallRecord& record) { return record.bytes == 0 && record.code != kOutOfMemory; };
  calls.erase(std::remove_if(calls.begin(), calls.end(), is_other), calls.end());
  return calls;
}

}  // namespace

Tables read_tables(const Dump& dump, const TimeRange& range, bool each, const OnlyLost& only_lost) {
  Tables tables = {group_allocations(dump, {}, range, each, only_lost),
                   dump.releases(),
                   dump.errors(),
                   failed_allocations(dump),
                   dump.contexts(),
                   dump.call_counts(),
                   read_held(dump),
                   read_last_held(dump, only_lost ? std::optional(only_lost->last) : std::nullopt),
                   dump.audits(),
                   range,
                   each,
                   only_lost};
  // Records that sum up equal events count in full if one of the events may be in the range.
  drop_outside(range, &tables.releases, &ReleaseRecord::first_ns, &ReleaseRecord::last_ns);
  drop_outside(range, &tables.errors, &ErrorRecord::first_ns, &ErrorRecord::last_ns);
  drop_outside(range, &tables.failed_allocations, &FailedCallRecord::first_ns, &FailedCallRecord::last_ns);
  drop_outside(range, &tables.contexts, &ContextRecord::created_ns, &ContextRecord::created_ns);
  return tables;
}

std::vector<Ref> stacks_of(const Tables& tables, const Dump& dump) {
  std::vector<Ref> stacks;
  auto add_evidence = [&](Ref ref) {
    EvidenceRecord evidence;
    if (!dump.evidence(ref, &evidence)) return;
    ErrorRecord error;
    if (dump.error(evidence.error, &error)) stacks.push_back(error.stack);
    ThrowRecord thrown;
    if (dump.thrown(evidence.thrown, &thrown)) {
      stacks.push_back(thrown.stack);
      stacks.push_back(thrown.catch_stack);
    }
    FailedCallRecord failed;
    if (dump.failed_call(evidence.failed_call, &failed)) stacks.push_back(failed.stack);
  };
  for (const AllocationGroup& group : tables.allocations) {
    stacks.push_back(group.stack);
    if (group.launch != 0) stacks.push_back(group.launch);
    if (group.outer.ref != 0) stacks.push_back(group.outer.record.stack);
    add_evidence(group.evidence);
  }
  for (const ReleaseRecord& release : tables.releases) {
    stacks.push_back(release.stack);
    stacks.push_back(release.teardown_stack);
    add_evidence(release.evidence);
  }
  for (const LastHeld& held : tables.last_held) stacks.push_back(held.record.stack);
  for (const ContextRecord& context : tables.contexts) stacks.push_back(context.stack);
  for (const ErrorRecord& error : tables.errors) {
    for (Ref ref : {error.stack, error.allocation_stack, error.free_stack}) stacks.push_back(ref);
  }
  for (const FailedCallRecord& failed : tables.failed_allocations) stacks.push_back(failed.stack);
  for (const AuditRecord& audit : tables.audits) {
    if (audit.stack != 0) stacks.push_back(audit.stack);
  }
  return stacks;
}

std::vector<std::uint64_t> places_of(const Tables& tables) {
  std::vector<std::uint64_t> places;
  places.reserve(tables.held.size());
  for (const Held& held : tables.held) {
    if (held.heap.step == 0) places.push_back(held.place);
  }
  for (const LastHeld& held : tables.last_held) {
    if (!held.local) places.push_back(held.data);
  }
  return places;
}

std::vector<HeapPlace> heap_places_of(const Tables& tables) {
  std::vector<HeapPlace> places;
  for (const Held& held : tables.held) {
    if (held.heap.step != 0) places.push_back(held.heap);
  }
  return places;
}

std::vector<LocalPlace> local_places_of(const Tables& tables) {
  std::vector<LocalPlace> places;
  for (const LastHeld& held : tables.last_held) {
    if (held.local) places.push_back(*held.local);
  }
  return places;
}

}  // namespace culprit::report
