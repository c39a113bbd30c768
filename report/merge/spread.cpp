#include "report/merge/spread.h"

#include <algorithm>
#include <map>
#include <set>

#include "report/base/words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownPieces = 8;

// The others are no ranks of the job, as its launcher is not.
std::size_t count_ranks(const std::vector<JobProcess>& job) {
  return static_cast<std::size_t>(
      std::count_if(job.begin(), job.end(), [](const JobProcess& process) { return process.rank.has_value(); }));
}

bool all_ranked(const std::vector<Share>& shares, const std::vector<JobProcess>& job) {
  return std::all_of(shares.begin(), shares.end(),
                     [&](const Share& share) { return job[share.process].rank.has_value(); });
}

// "process 4242 on node7, 4243 on node7"
std::string unranked_text(const std::vector<JobProcess>& job, const std::vector<std::uint32_t>& processes) {
  std::string text = processes.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (i == kShownPieces) return text + " and " + std::to_string(processes.size() - i) + " more";
    const JobProcess& process = job[processes[i]];
    text += (i == 0 ? "" : ", ") + std::to_string(process.pid);
    if (!process.host.empty()) text += " on " + printable(process.host);
  }
  return text;
}

}  // namespace

Spread spread_of(const Group& group, std::size_t processes) {
  Spread spread;
  std::vector<std::uint64_t> bytes;
  for (const Share& share : group.shares) bytes.push_back(share.bytes);
  if (bytes.empty()) return spread;
  std::sort(bytes.begin(), bytes.end());
  spread.min = bytes.front();
  spread.median = bytes[bytes.size() / 2];
  spread.max = bytes.back();
  if (processes < 3) return spread;
  const std::size_t few = std::max<std::size_t>(1, processes / 4);
  if (group.shares.size() <= few) {
    for (const Share& share : group.shares) spread.odd.push_back(share.process);
    return spread;
  }
  for (const Share& share : group.shares) {
    if (share.bytes / 2 > spread.median / 2 && share.bytes - spread.median >= spread.median)
      spread.odd.push_back(share.process);
  }
  if (spread.odd.size() > few) spread.odd.clear();
  return spread;
}

std::string ranks_text(const std::vector<unsigned>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  std::size_t pieces = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (pieces == kShownPieces) return text + " and " + std::to_string(ranks.size() - i) + " more";
    text += (pieces++ == 0 ? "" : ", ") + std::to_string(ranks[i]);
    if (end - i > 1) text += (end - i == 2 ? ", " : "-") + std::to_string(ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string processes_text(const std::vector<JobProcess>& job, const std::vector<std::uint32_t>& processes) {
  std::vector<unsigned> ranks;
  std::vector<std::uint32_t> others;
  for (const std::uint32_t process : processes) {
    if (job[process].rank) {
      ranks.push_back(*job[process].rank);
    } else {
      others.push_back(process);
    }
  }
  if (ranks.empty()) return unranked_text(job, others);
  return ranks_text(ranks) + (others.empty() ? "" : " and " + unranked_text(job, others));
}

std::string job_text(const Report& report) {
  const std::vector<JobProcess>& job = report.job;
  std::string text = plural(job.size(), "process", "processes");
  std::vector<unsigned> ranks;
  for (const JobProcess& process : job) {
    if (process.rank) ranks.push_back(*process.rank);
  }
  if (!ranks.empty()) {
    text += ", " + ranks_text(ranks);
    if (ranks.size() < job.size()) text += " and " + plural(job.size() - ranks.size(), "other", "others");
  }
  std::set<std::string> hosts;
  std::map<std::string, std::size_t> ends;
  for (const JobProcess& process : job) {
    hosts.insert(process.host);
    switch (process.ended) {
      case Ended::kExit:
        ++ends["exit " + std::to_string(process.exit_status)];
        break;
      case Ended::kKilled:
        ++ends["killed"];
        break;
      case Ended::kRunning:
        ++ends["still running"];
        break;
      case Ended::kUnknown:
        ++ends["end unknown"];
        break;
    }
  }
  text += hosts.size() == 1 ? ", on " + printable(*hosts.begin()) : ", on " + std::to_string(hosts.size()) + " hosts";
  bool first = true;
  for (const auto& [end, count] : ends) {
    text += (first ? " · " : ", ") + std::to_string(count) + " " + end;
    first = false;
  }
  if (!report.devices.empty()) text += " · " + plural(report.devices.size(), "GPU", "GPUs");
  return text;
}

SpreadText spread_text(const Group& group, const std::vector<JobProcess>& job) {
  const bool of_ranks = all_ranked(group.shares, job);
  const std::size_t processes = of_ranks ? count_ranks(job) : job.size();
  const Spread spread = spread_of(group, processes);
  std::string what = of_ranks ? " ranks" : " processes";
  // Two processes have no majority, so that neither is odd.
  if (group.shares.size() == 1 && processes > 1 && spread.odd.empty())
    what += ", " + processes_text(job, {group.shares.front().process});
  what += ": ";
  SpreadText text;
  text.line = (group.shares.size() == processes ? "all " : std::to_string(group.shares.size()) + " of ") +
              std::to_string(processes);
  text.line += what;
  if (spread.min == spread.max) {
    text.line += format_bytes(spread.max) + (group.shares.size() == 1 ? "" : " each");
  } else {
    text.line +=
        format_bytes(spread.min) + " to " + format_bytes(spread.max) + ", median " + format_bytes(spread.median);
  }
  if (spread.odd.empty()) return text;
  const bool only = spread.odd.size() == group.shares.size();
  text.odd = (only ? "only " : "") + processes_text(job, spread.odd);
  if (!only) {
    text.odd += spread.odd.size() == 1 ? " has " : " have up to ";
    text.odd += format_bytes(spread.max) + ", the median is " + format_bytes(spread.median);
  }
  return text;
}

}  // namespace culprit::report
