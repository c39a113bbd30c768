#include "report/run/sweep.h"

#include <algorithm>
#include <set>

#include "report/base/words.h"
#include "report/model/frame_rules.h"
#include "report/model/not_recorded.h"

namespace culprit::report {
namespace {

using Reports = std::vector<std::shared_ptr<const Report>>;

// Equal for stacks of different runs that look the same to a reader.
std::string place_key(const ResolvedStack* stack) {
  std::string key;
  if (stack == nullptr) return key;
  for (const Frame* frame : stack->frames) {
    key += frame->module != nullptr ? frame->module->path : "";
    key += '\n' + frame->function + '\n';
    key += frame->line != 0 ? frame->file + ':' + std::to_string(frame->line) : std::to_string(frame->offset);
    key += '\n';
  }
  return key;
}

std::string key_of(const Group& group) {
  return std::to_string(static_cast<unsigned>(group.kind)) + ' ' + group.driver_api + '\n' + place_key(group.stack);
}

std::string key_of(const ErrorGroup& error) {
  return std::to_string(static_cast<unsigned>(error.type)) + ' ' + error.driver_api + '\n' + place_key(error.stack) +
         '\n' + place_key(error.allocation_stack);
}

struct Amount {
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

std::map<std::string, Amount> leaks_of(const Reports& reports) {
  std::map<std::string, Amount> sums;
  for (const auto& report : reports) {
    for (const Group& group : report->leaks) {
      Amount& sum = sums[key_of(group)];
      sum.count += group.count;
      sum.bytes += group.bytes;
    }
  }
  return sums;
}

// Whether this is, among the groups of one stack, the one caused by the injected failure.
bool is_of_injection(const Group& group) {
  return std::any_of(group.evidence.begin(), group.evidence.end(),
                     [](const Evidence& evidence) { return evidence.injected; });
}

// Adds a finding, or adds the run to an equal finding of another run.
void add_finding(Sweep* sweep, std::size_t run, SweepFinding finding) {
  std::size_t number = 0;
  for (; number < sweep->findings.size(); ++number) {
    const SweepFinding& known = sweep->findings[number];
    if (known.is_error != finding.is_error) continue;
    if (finding.is_error ? key_of(known.error) == key_of(finding.error) : key_of(known.leak) == key_of(finding.leak))
      break;
  }
  if (number == sweep->findings.size()) sweep->findings.push_back(std::move(finding));
  sweep->findings[number].runs.push_back(run);
  sweep->runs[run].findings.push_back(number);
}

void compare_leaks(Sweep* sweep, std::size_t run, const Reports& reports) {
  const std::map<std::string, Amount> before = leaks_of(sweep->clean_reports);
  for (auto& [key, amount] : leaks_of(reports)) {
    const auto clean = before.find(key);
    const Amount known = clean == before.end() ? Amount() : clean->second;
    if (amount.count <= known.count) continue;
    SweepFinding finding;
    for (const auto& report : reports) {
      for (const Group& group : report->leaks) {
        if (key_of(group) != key || (finding.report != nullptr && !is_of_injection(group))) continue;
        finding.leak = group;
        finding.report = report;
      }
    }
    finding.leak.count = amount.count - known.count;
    finding.leak.bytes = amount.bytes > known.bytes ? amount.bytes - known.bytes : amount.bytes;
    add_finding(sweep, run, std::move(finding));
  }
}

void compare_errors(Sweep* sweep, std::size_t run, const Reports& reports) {
  std::set<std::string> before;
  for (const auto& report : sweep->clean_reports) {
    for (const ErrorGroup& error : report->errors) before.insert(key_of(error));
  }
  for (const auto& report : reports) {
    for (const ErrorGroup& error : report->errors) {
      if (!before.insert(key_of(error)).second) continue;
      SweepFinding finding;
      finding.report = report;
      finding.error = error;
      finding.is_error = true;
      add_finding(sweep, run, std::move(finding));
    }
  }
}

// Whether a process below the command was killed, for example below a shell: only that its exit handlers did not run is
// known of it.
bool may_be_killed(const Reports& reports) {
  return std::any_of(reports.begin(), reports.end(), [](const auto& report) {
    return report->process.status.ended == Ended::kKilled || report->process.status.gone;
  });
}

std::vector<std::string> reasons_of(const Reports& reports) {
  std::vector<std::string> reasons;
  for (const auto& report : reports) {
    for (const std::string& reason : reasons_not_known(*report)) {
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end()) reasons.push_back(reason);
    }
  }
  return reasons;
}

bool gives_up(const Reports& reports) {
  return std::any_of(reports.begin(), reports.end(),
                     [](const auto& report) { return exit_caller(report->exit_stack) != nullptr; });
}

}  // namespace

std::size_t Sweep::count(SweepOutcome outcome) const {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [&](const SweepRun& run) { return run.outcome == outcome; }));
}

std::size_t Sweep::leaks() const { return findings.size() - errors(); }

std::size_t Sweep::errors() const {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [](const SweepFinding& finding) { return finding.is_error; }));
}

std::vector<AllocationSite> sites_of(const Reports& reports) {
  std::vector<AllocationSite> sites;
  std::map<std::uint64_t, std::size_t> known;
  for (const auto& report : reports) {
    std::vector<AllocationSite> own = report->sites;
    std::sort(own.begin(), own.end(),
              [](const AllocationSite& left, const AllocationSite& right) { return left.number < right.number; });
    for (const AllocationSite& site : own) {
      const auto [at, added] = known.emplace(site.site, sites.size());
      if (added) {
        sites.push_back(site);
      } else {
        sites[at->second].calls += site.calls;
      }
    }
  }
  return sites;
}

void judge_run(Sweep* sweep, std::size_t number, const Reports& reports, bool readable) {
  SweepRun& run = sweep->runs[number];
  run.not_known = reasons_of(reports);
  const bool reached =
      std::any_of(reports.begin(), reports.end(), [](const auto& report) { return report->injected_failures != 0; });
  if (run.result.child.start_errno != 0 || !readable) {
    run.outcome = SweepOutcome::kUnreadable;
  } else if (run.result.timed_out) {
    run.outcome = SweepOutcome::kHang;
  } else if (run.result.child.signalled || (may_be_killed(reports) && !may_be_killed(sweep->clean_reports))) {
    run.outcome = SweepOutcome::kCrash;
  } else if (!reached) {
    run.outcome = SweepOutcome::kNotReached;
  } else if (gives_up(reports) && !gives_up(sweep->clean_reports)) {
    run.outcome = SweepOutcome::kGaveUp;
    for (const auto& report : reports) {
      if (exit_caller(report->exit_stack) != nullptr) run.gave_up = report;
    }
    compare_errors(sweep, number, reports);
  } else {
    compare_leaks(sweep, number, reports);
    compare_errors(sweep, number, reports);
    run.outcome = sweep->runs[number].findings.empty() ? SweepOutcome::kFine : SweepOutcome::kFound;
  }
}

const char* verdict_name(const Sweep& sweep) {
  if (!sweep.findings.empty() || sweep.count(SweepOutcome::kCrash) + sweep.count(SweepOutcome::kHang) != 0)
    return "found";
  return verdict_name(reasons_not_known(sweep).empty() ? Verdict::kClean : Verdict::kNotKnown);
}

std::vector<std::string> reasons_not_known(const Sweep& sweep) {
  std::vector<std::string> reasons;
  for (const std::string& reason : reasons_of(sweep.clean_reports)) reasons.push_back("the clean run: " + reason);
  // Runs of one program often lack the same.
  std::vector<std::pair<std::string, std::size_t>> of_runs;
  for (const SweepRun& run : sweep.runs) {
    for (const std::string& reason : run.not_known) {
      const auto known =
          std::find_if(of_runs.begin(), of_runs.end(), [&](const auto& one) { return one.first == reason; });
      if (known == of_runs.end()) {
        of_runs.emplace_back(reason, 1);
      } else {
        ++known->second;
      }
    }
  }
  for (const auto& [reason, count] : of_runs) reasons.push_back(plural(count, "run", "runs") + ": " + reason);
  const std::size_t unreadable = sweep.count(SweepOutcome::kUnreadable);
  if (unreadable != 0)
    reasons.push_back(plural(unreadable, "run was not started, or left", "runs were not started, or left") +
                      " a dump that cannot be read");
  const std::size_t missed = sweep.count(SweepOutcome::kNotReached);
  if (missed != 0)
    reasons.push_back(plural(missed, "run did not come to its", "runs did not come to their") +
                      " allocation site: nothing failed there");
  return reasons;
}

const char* outcome_name(SweepOutcome outcome) {
  switch (outcome) {
    case SweepOutcome::kFine:
      return "fine";
    case SweepOutcome::kFound:
      return "found";
    case SweepOutcome::kGaveUp:
      return "gave-up";
    case SweepOutcome::kCrash:
      return "crash";
    case SweepOutcome::kHang:
      return "hang";
    case SweepOutcome::kNotReached:
      return "not-reached";
    case SweepOutcome::kUnreadable:
      break;
  }
  return "unreadable";
}

const Frame* exit_caller(const ResolvedStack* exit_stack) {
  if (exit_stack == nullptr) return nullptr;
  for (const Frame* frame : exit_stack->frames) {
    if (is_system_code(*frame)) continue;
    return frame->function == "main" ? nullptr : frame;
  }
  return nullptr;
}

std::string site_name(const AllocationSite& site) { return hex_id(site.site); }

}  // namespace culprit::report
