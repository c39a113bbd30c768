#include "tests/guest/both_ways.h"

#include <fstream>
#include <sstream>

#include "tests/catch.h"
#include "tests/process/culprit_run.h"
#include "tests/support/text.h"

namespace culprit::test {
namespace {

namespace fs = std::filesystem;

fs::path tree() { return fs::read_symlink("/proc/self/exe").parent_path().parent_path(); }

std::string without_our_lines(const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("culprit: ", 0) != 0) result += line + "\n";
  }
  return result;
}

std::map<std::string, long long> read_figures(const fs::path& path) {
  std::map<std::string, long long> figures;
  std::ifstream file(path);
  std::string name;
  for (long long value = 0; file >> name >> value;) figures[name] = value;
  return figures;
}

RunOptions options_of(const Situation& situation) {
  RunOptions options;
  options.preload_before = situation.preload_before;
  options.preload_after = situation.preload_after;
  options.timeout_seconds = situation.seconds;
  options.before_exec = situation.before_exec;
  options.working_directory = situation.working_directory;
  if (!on_gpu()) {
    options.environment["LD_LIBRARY_PATH"] =
        (tree() / "guest" / "driver").string() + ":" + (tree() / "simcuda").string();
  }
  for (const auto& [name, value] : situation.environment) options.environment[name] = value;
  return options;
}

Run run_once(const Situation& situation, bool preload, std::map<std::string, long long>* figures) {
  const TemporaryFolder folder;
  const fs::path figures_path = folder.path() / "figures";
  RunOptions options = options_of(situation);
  options.preload = preload;
  options.environment.emplace("GUEST_FIGURES", figures_path.string());
  Run run = run_preloaded(guest_path(situation.program).string(), situation.arguments, options);
  *figures = read_figures(figures_path);
  return run;
}

}  // namespace

fs::path guest_path(const std::string& program) {
  return program.find('/') != std::string::npos ? fs::path(program) : tree() / "guest" / "programs" / program;
}

bool guest_built(const std::string& program, const std::string& needs) {
  if (fs::exists(guest_path(program))) return true;
  not_run_here(program + " was not built: it needs " + needs);
  return false;
}

void not_run_here(const std::string& why) { WARN("not run here: " << why); }

void left_out(const std::string& what, const std::string& why) { WARN("left out: " << what << ": " << why); }

BothWays both_ways(const Situation& situation) {
  std::string title = situation.program;
  for (const std::string& argument : situation.arguments) title += " " + argument;
  BothWays runs;
  if (on_gpu() && situation.fake_driver_only) {
    left_out(title, "NVIDIA's driver fails in this situation without the library too");
    return runs;
  }
  runs.ran = true;
  runs.alone = run_once(situation, false, &runs.figures_alone);
  if (on_gpu() && runs.alone.timed_out) {
    left_out(title, "NVIDIA's driver is too slow in this situation without the library too");
    runs.ran = false;
    return runs;
  }
  runs.under = run_once(situation, true, &runs.figures_under);
  INFO(title);
  INFO("alone: " << runs.alone.out << runs.alone.err);
  CHECK_FALSE(runs.alone.timed_out);
  CHECK(runs.alone.exit_code != 3);
  INFO("under the library: " << runs.under.out << runs.under.err);
  CHECK_FALSE(runs.under.timed_out);
  CHECK(runs.under.exit_code == runs.alone.exit_code);
  CHECK(runs.under.signal == runs.alone.signal);
  CHECK(runs.under.out == runs.alone.out);
  const auto comparable = [&](const std::string& text) {
    const std::string theirs = without_our_lines(text);
    return situation.comparable ? situation.comparable(theirs) : theirs;
  };
  CHECK(comparable(runs.under.err) == comparable(runs.alone.err));
  return runs;
}

Run run_at_gate(const Situation& situation) {
  std::vector<std::string> command = {guest_path(situation.program).string()};
  command.insert(command.end(), situation.arguments.begin(), situation.arguments.end());
  return culprit_run({"--fail-on", "leaks"}, command, options_of(situation));
}

void check_leaks_or_dropped(const BothWays& runs, std::uint64_t expected) {
  if (!runs.ran) return;
  if (runs.under.dumps.empty()) {
    INFO("no dump, and standard error: " << runs.under.err);
    CHECK(has(runs.under.err, "culprit: warning: nothing is recorded"));
    return;
  }
  REQUIRE(runs.under.dumps.size() == 1);
  const Report report = read_report(runs.under.dump());
  const nlohmann::json& summary = report.json.at("summary");
  const bool complete = summary.value("complete", summary.at("dropped") == 0);
  INFO("reported " << report.leaked_count() << " leaks, " << (complete ? "complete" : "not complete")
                   << "; the program left " << expected);
  if (report.leaked_count() != expected) CHECK_FALSE(complete);
}

void check_live_or_dropped(const BothWays& runs) {
  if (runs.ran) check_leaks_or_dropped(runs, static_cast<std::uint64_t>(figure(runs.figures_under, "live")));
}

long long figure(const std::map<std::string, long long>& figures, const std::string& name) {
  INFO("the figure " << name << ", which the program writes at its end");
  CHECK(figures.count(name) == 1);
  const auto found = figures.find(name);
  return found == figures.end() ? 0 : found->second;
}

}  // namespace culprit::test
