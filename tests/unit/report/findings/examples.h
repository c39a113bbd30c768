// An example of each finding, in the report of a rank: the tests try every format with it. A row of findings.def
// without one does not compile.
#pragma once

#include <string>

#include "report/findings/finding.h"
#include "report/model/report.h"

namespace culprit::test {

// The names in an example: of a stack, and of everything else that a dump tells.
struct Names {
  const report::ResolvedStack* stack;
  std::string other;
};

// Makes the finding in the report of one of two ranks, 0 and 1. One that concerns both ranks needs both.
template <report::FindingKind>
void add_example(const Names& names, unsigned rank, report::Report* report);

template <>
inline void add_example<report::FindingKind::kUnseenUser>(const Names& names, unsigned, report::Report* report) {
  report::UnseenUser user;
  user.path = "/lib/" + names.other;
  report->unseen.push_back(user);
}

template <>
inline void add_example<report::FindingKind::kNotRecorded>(const Names& names, unsigned, report::Report* report) {
  report->dropped.allocations = 12;
  report->dropped.reason = names.other;
}

template <>
inline void add_example<report::FindingKind::kAuditDifference>(const Names& names, unsigned, report::Report* report) {
  report->audit.state = format::AuditState::kOn;
  report->audit.functions = {{names.other, 3}};
  report->audit.not_recorded = {{names.other, 3, 12 << 20, names.stack}};
}

template <>
inline void add_example<report::FindingKind::kMissingProcesses>(const Names& names, unsigned, report::Report* report) {
  report->not_joined.push_back("no dump of " + names.other);
}

template <>
inline void add_example<report::FindingKind::kOutOfMemory>(const Names& names, unsigned, report::Report* report) {
  report::Breakdown breakdown;
  breakdown.out_of_memory = true;
  breakdown.device = 0;
  breakdown.time_ns = 5;
  breakdown.api = names.other;
  breakdown.stack = names.stack;
  breakdown.asked_bytes = 2 << 20;
  breakdown.times = 1;
  breakdown.live_bytes = 1 << 20;
  breakdown.live_count = 1;
  breakdown.entries.push_back({names.stack, names.other, format::Kind::kDevice, 1 << 20, 1, ""});
  report->breakdowns.push_back(breakdown);
}

inline report::FailedAllocation failed_example(const Names& names, std::uint64_t bytes) {
  report::FailedAllocation failed;
  failed.api = names.other;
  failed.code = 201;
  failed.code_name = "CUDA_ERROR_INVALID_CONTEXT";
  failed.count = 5;
  failed.bytes = bytes;
  failed.stack = names.stack;
  return failed;
}

template <>
inline void add_example<report::FindingKind::kFailedAllocation>(const Names& names, unsigned, report::Report* report) {
  report->failed_allocations.push_back(failed_example(names, 4096));
}

template <>
inline void add_example<report::FindingKind::kFailedCall>(const Names& names, unsigned, report::Report* report) {
  report->failed_allocations.push_back(failed_example(names, 0));
}

template <>
inline void add_example<report::FindingKind::kSharedMemory>(const Names& names, unsigned rank, report::Report* report) {
  report::Sharing sharing;
  sharing.role = rank == 0 ? format::SharingRole::kExport : format::SharingRole::kImport;
  sharing.type = format::SharingType::kIpcHandle;
  sharing.key = 77;
  sharing.bytes = 4096;
  sharing.count = 1;
  sharing.time_ns = rank == 0 ? 10 : 20;
  sharing.ended_ns = rank == 0 ? 30 : 0;
  sharing.stack = sharing.export_stack = sharing.end_stack = names.stack;
  report->sharings.push_back(sharing);
}

template <>
inline void add_example<report::FindingKind::kStrayContext>(const Names& names, unsigned, report::Report* report) {
  report::ContextInfo context;
  context.device = 1;
  context.api = names.other;
  context.stack = names.stack;
  context.bytes = 500 << 20;
  context.stray = true;
  context.allocates_on = {0};
  report->contexts.push_back(context);
}

template <>
inline void add_example<report::FindingKind::kGrowingExecutables>(const Names& names, unsigned,
                                                                  report::Report* report) {
  report::CallCharge charge;
  charge.what = report::BalancePart::kGraphExecutables;
  charge.api = names.other;
  charge.stack = names.stack;
  charge.bytes = 546 << 20;
  charge.count = 39;
  charge.made = charge.live = charge.most_live = 40;
  charge.growing = true;
  report->call_charges.push_back(charge);
}

template <>
inline void add_example<report::FindingKind::kGrowingStreams>(const Names& names, unsigned, report::Report* report) {
  report::Group group;
  group.kind = format::Kind::kStream;
  group.api = names.other;
  group.stack = names.stack;
  group.count = 96;
  group.first_ns = 1'000'000'000;
  group.last_ns = report->process.end_time_ns = 61'000'000'000;
  report->resources.push_back(group);
}

template <>
inline void add_example<report::FindingKind::kOverwritten>(const Names& names, unsigned, report::Report* report) {
  report::Overwritten one;
  one.variable = names.other;
  one.module = "/bin/" + names.other;
  one.api = names.other;
  one.count = 4;
  one.bytes = 4 << 20;
  one.device = 0;
  one.stack = names.stack;
  report->overwritten.push_back(one);
}

inline report::CacheInside cache_example(const Names& names) {
  report::CacheInside inside;
  inside.pool = "PyTorch caching allocator";
  inside.live_bytes = 4096;
  inside.idle_bytes = 1024;
  inside.largest = {{4096, 3, "/src/" + names.other, 7, names.other, names.other}};
  return inside;
}

template <>
inline void add_example<report::FindingKind::kLiveInCaches>(const Names& names, unsigned, report::Report* report) {
  report->caches_inside = {cache_example(names)};
  report->live_cached_bytes = 4096;
}

template <>
inline void add_example<report::FindingKind::kRanOut>(const Names& names, unsigned, report::Report* report) {
  report->ran_out = {cache_example(names)};
}

template <>
inline void add_example<report::FindingKind::kFreedAtEnd>(const Names& names, unsigned, report::Report* report) {
  report::Breakdown breakdown;
  breakdown.device = 0;
  breakdown.stack = names.stack;
  breakdown.live_bytes = 4096;
  breakdown.live_count = 2;
  breakdown.entries.push_back({names.stack, names.other, format::Kind::kDevice, 4096, 2, ""});
  report->freed_at_end.push_back(breakdown);
}

template <>
inline void add_example<report::FindingKind::kReleasesRefused>(const Names&, unsigned, report::Report* report) {
  report->summary.late_frees = 2;
}

}  // namespace culprit::test
