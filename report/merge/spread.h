// The shares of a job's processes in a leak, so that one odd rank stands out.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct Group;
struct JobProcess;
struct Report;

struct Spread {
  std::uint64_t min = 0;  // bytes; only processes with a share count
  std::uint64_t median = 0;
  std::uint64_t max = 0;
  // The few odd processes: only they have a share, or theirs is much larger than the median. Indices into Report::job;
  // empty when no process is odd.
  std::vector<std::uint32_t> odd;
};

// For a group with shares.
Spread spread_of(const Group& group, std::size_t processes);

// "rank 3", "ranks 0-2, 5"; only the first few pieces of a long list.
std::string ranks_text(const std::vector<unsigned>& ranks);

// ranks_text() for processes of a job; of those that are no ranks "process 4242 on node7".
std::string processes_text(const std::vector<JobProcess>& job, const std::vector<std::uint32_t>& processes);

// The processes in a merged report: "5 processes, ranks 0-3 and 1 other, on 2 hosts · 4 exit 0, 1 killed · 4 GPUs".
std::string job_text(const Report& report);

// Two lines for the text report: "all 4 ranks: 1.00 MiB to 64.0 MiB, median 1.00 MiB", and the odd processes, or "".
struct SpreadText {
  std::string line;
  std::string odd;
};
SpreadText spread_text(const Group& group, const std::vector<JobProcess>& job);

}  // namespace culprit::report
