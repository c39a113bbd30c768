// A line that makes streams over the whole run and keeps them. Not one that makes a pool at the start, nor one stream
// for each thread: those are many streams, and no growth.
#include <algorithm>
#include <string>

#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/findings/place_words.h"
#include "report/merge/spread.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// PyTorch's pools are 32 streams for each of four priorities, all made at the first use of one.
constexpr std::uint64_t kFewestStreams = 64;
constexpr std::uint64_t kFewestPerThread = 4;
constexpr std::uint64_t kShortestGrowthNs = 10'000'000'000;

std::uint64_t threads_of(const Group& group) {
  std::uint64_t threads = group.threads.size();
  for (const ThreadSum& sum : group.thread_sums) threads += sum.threads;
  return std::max<std::uint64_t>(threads, 1);
}

// The last moment that is known of the program. Each process of a job counts its time from its own start.
std::uint64_t last_moment(const Report& report) {
  std::uint64_t last = std::max(report.process.end_time_ns, report.snapshot_ns);
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources})
    for (const Group& group : *groups) last = std::max(last, group.last_ns);
  return last;
}

// The processes that have many of the streams, and how many.
struct Owners {
  std::vector<std::uint32_t> processes;
  std::uint64_t streams = 0;
};

Owners owners_of(const Group& group) {
  Owners owners;
  if (group.shares.empty() && group.count >= kFewestStreams) owners.streams = group.count;
  for (const Share& share : group.shares) {
    if (share.count < kFewestStreams) continue;
    owners.processes.push_back(share.process);
    owners.streams += share.count;
  }
  return owners;
}

bool grows_over_the_run(const Group& group, std::uint64_t end_ns) {
  const bool are_kept = group.freed <= group.count;
  const std::uint64_t from = group.first_ns, to = std::max(group.last_ns, from);
  return are_kept && group.count / kFewestPerThread >= threads_of(group) && to - from >= kShortestGrowthNs &&
         to - from >= (end_ns - from) / 4 * 3;
}

std::string growth_text(const Report& report, const Group& group, const Owners& owners) {
  std::string text = report.job.empty() ? "" : processes_text(report.job, owners.processes) + ": ";
  text += std::to_string(owners.streams) + " kept";
  const std::string maker = maker_of(*group.stack);
  if (!maker.empty()) text += ", made at " + maker;
  text += " from " + format_time(group.first_ns) + " to " + format_time(group.last_ns);
  return group.freed == 0 ? text : text + " (" + std::to_string(group.freed) + " others were destroyed)";
}

void collect_growing_streams(const Report& report, std::vector<Finding>* list) {
  const std::uint64_t end_ns = last_moment(report);
  for (const Group& group : report.resources) {
    const Owners owners = owners_of(group);
    if (group.kind != format::Kind::kStream || !group.library.empty() || owners.streams == 0 ||
        !grows_over_the_run(group, end_ns))
      continue;
    Finding& finding = add_finding(FindingKind::kGrowingStreams, growth_text(report, group, owners), list);
    finding.count = owners.streams;
    finding.device = group.device;
    if (!report.job.empty()) finding.processes = owners.processes;
    finding.add_place("made", group.stack);
    finding.hint = "destroy each with cudaStreamDestroy, or make them once and use them again";
  }
}

}  // namespace

const CollectFindings kGrowingStreamsFinding = collect_growing_streams;

}  // namespace culprit::report
