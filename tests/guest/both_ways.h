// Runs a guest program alone and under the library, and demands that both runs end alike. The bottom layer of all guest
// tests.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/support/run_preloaded.h"

namespace culprit::test {

struct Situation {
  std::string program;  // of build/guest/programs, or a path
  std::vector<std::string> arguments;
  int seconds = 60;               // time limit of each of the two runs
  bool fake_driver_only = false;  // the program alone does not work on NVIDIA's driver
  std::map<std::string, std::string> environment;
  std::vector<std::string> preload_before;  // on both sides, as paths
  std::vector<std::string> preload_after;
  std::function<void()> before_exec;  // see ProgramOptions
  std::string working_directory;
  // Removes from standard error the parts that differ between two runs (pids, addresses); empty: no such parts.
  std::function<std::string(const std::string&)> comparable;
};

struct BothWays {
  bool ran = false;  // false: left out here; nothing else is set
  Run alone;
  Run under;
  std::map<std::string, long long> figures_alone;  // written by the program with guest::figure()
  std::map<std::string, long long> figures_under;
};

// Runs the situation twice and CHECKs: the program alone ended by itself with an exit code other than 3 (its word for
// "something is not as it should be"); exit code, signal, standard output and standard error, less the lines that begin
// with "culprit: ", are the same; neither run took longer than its limit. On a GPU a situation for the fake driver only
// is left out with a warning.
BothWays both_ways(const Situation& situation);

// The situation's program under `culprit run --fail-on leaks`.
Run run_at_gate(const Situation& situation);

// For a program that left `expected` allocations on purpose: CHECKs that the only dump's report has so many leaks, or
// says that recording was incomplete (summary.complete, or summary.dropped of older reports).
void check_leaks_or_dropped(const BothWays& runs, std::uint64_t expected);

// check_leaks_or_dropped() for a program that counted its live allocations itself: its figure "live".
void check_live_or_dropped(const BothWays& runs);

// A figure that the program wrote. If it is missing, the test fails and the result is 0.
long long figure(const std::map<std::string, long long>& figures, const std::string& name);

// The path of a guest program.
std::filesystem::path guest_path(const std::string& program);

// True when it exists; otherwise reports that this test cannot run here, and why.
bool guest_built(const std::string& program, const std::string& needs);

// Reports that this whole test case cannot run here: ctest counts it as skipped. Return right afterwards.
void not_run_here(const std::string& why);

// Reports that a part of a test case cannot run here.
void left_out(const std::string& what, const std::string& why);

}  // namespace culprit::test
