// The results of failing one allocation site after the other: leaks, bad frees, crashes and hangs that are absent from
// the clean run, in which nothing failed. Pure: no processes, no files.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "report/run/child_pool.h"

namespace culprit::report {

enum class SweepOutcome {
  kFine,        // ended without new findings
  kFound,       // has leaks or bad frees that the clean run does not have
  kGaveUp,      // the program called exit() in the middle: unfreed memory is then not a finding
  kCrash,       // ended by a signal
  kHang,        // ran into the time limit
  kNotReached,  // this run did not call the site
  kUnreadable,  // could not be started, or its dump could not be read
};

// A leak or a bad free of an injected run.
struct SweepFinding {
  std::shared_ptr<const Report> report;  // owns the objects that `leak` and `error` point to
  Group leak;                            // the excess over the clean run
  ErrorGroup error;                      // used instead of `leak` when is_error
  bool is_error = false;
  std::vector<std::size_t> runs;  // the runs that found it
};

struct SweepRun {
  AllocationSite site;
  PoolResult result;
  SweepOutcome outcome = SweepOutcome::kNotReached;
  std::shared_ptr<const Report> gave_up;  // kGaveUp: the process that called exit(); see its exit_stack
  std::vector<std::size_t> findings;      // indices into Sweep::findings
  std::vector<std::string> not_known;     // reasons_not_known() of its processes, each once
};

struct Sweep {
  std::vector<std::string> command;
  PoolResult clean;
  std::vector<std::shared_ptr<const Report>> clean_reports;
  std::size_t sites = 0;  // number of sites in the clean run; `runs` may be fewer
  std::vector<SweepRun> runs;
  std::vector<SweepFinding> findings;

  std::size_t count(SweepOutcome outcome) const;
  std::size_t leaks() const;
  std::size_t errors() const;
};

// "found" (leaks, bad frees, crashes or hangs), else "not-known" when not all that happened in the runs is known, else
// "clean".
const char* verdict_name(const Sweep& sweep);

// Why it is not known whether the failures cause more leaks than were found: a sentence for each reason, without a full
// stop. Empty: all runs were recorded completely, and each one came to its site.
std::vector<std::string> reasons_not_known(const Sweep& sweep);

// The allocation sites of the clean run's processes, each once, in the order of their first calls.
std::vector<AllocationSite> sites_of(const std::vector<std::shared_ptr<const Report>>& reports);

// Judges run `number`, which has ended and left these reports. `readable`: whether all its dumps could be read.
void judge_run(Sweep* sweep, std::size_t number, const std::vector<std::shared_ptr<const Report>>& reports,
               bool readable);

// "fine", "found", "gave-up", ...: the names in the JSON report.
const char* outcome_name(SweepOutcome outcome);

// The innermost frame of the program's own code that called exit(), if it is not main; nullptr when main returned.
const Frame* exit_caller(const ResolvedStack* exit_stack);

// The name of an allocation site, as CULPRIT_FAIL=alloc-site: takes it.
std::string site_name(const AllocationSite& site);

}  // namespace culprit::report
