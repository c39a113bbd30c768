// culprit sweep -- command...: runs a program once unchanged, then once per allocation site with that allocation made
// to fail, and reports the leaks, crashes and hangs that only the failures cause.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "report/base/command_folder.h"
#include "report/base/exit_codes.h"
#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/progress.h"
#include "report/base/words.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/dump/run_dumps.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/render/json/render_sweep_json.h"
#include "report/render/text/render_sweep.h"
#include "report/run/child_pool.h"
#include "report/run/preload.h"
#include "report/run/run_starts.h"
#include "report/run/sweep.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

namespace fs = std::filesystem;
using Reports = std::vector<std::shared_ptr<const Report>>;

struct SweepCommand {
  std::vector<std::string> command;
  unsigned jobs = 1;
  double timeout = 0;              // seconds; 0: from the clean run's time
  unsigned max_runs = 0;           // 0: all
  std::vector<std::string> sites;  // empty: all
  bool show_output = false;
  std::string out;  // folder for the dumps; empty: a temporary one
  std::string log;
  OutputOptions output;
};

bool parse_site(const std::string& text, std::uint64_t* site) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *site, 16);
  return error == std::errc() && end == text.data() + text.size() && *site != 0;
}

// The dumps of the runs: a folder with a part for each run.
class Dumps {
 public:
  // Throws std::runtime_error or fs::filesystem_error.
  explicit Dumps(const std::string& kept) : path_(kept.empty() ? temporary_.path() : fs::absolute(kept).string()) {
    kept_ = !kept.empty();
    if (!kept_) return;
    fs::create_directories(path_);
    if (!fs::is_empty(path_)) throw std::runtime_error(path_.string() + ": is not empty; choose another --out");
  }
  // Prepares a run. Returns the variables that say where its processes write their dumps, and where they are counted.
  Environment begin(const std::string& part) {
    fs::create_directories(path_ / part);
    fs::create_directories(own(part));
    const RunStartsFile& starts = starts_.try_emplace(part, own(part)).first->second;
    Environment environment = preload_environment(pattern(part), temporary_.path());
    for (auto& variable : starts.variables()) environment.push_back(std::move(variable));
    environment.emplace_back("CULPRIT_RUN_ID", "");  // of a command around this one
    return environment;
  }
  // Reads the dumps of a run that has ended; false, with a message on stderr, when one of them cannot be read. The
  // reports include those of the processes that have no dump.
  bool read(const std::string& part, const OutputOptions& options, Reports* reports) {
    bool readable = true;
    const std::vector<std::string> paths = find_dumps(pattern(part), {});
    for (const std::string& path : paths) {
      try {
        reports->push_back(std::make_shared<const Report>(load_with_progress(path, options.load)));
      } catch (const DumpError& error) {
        log::error(error.what());
        readable = false;
      }
    }
    try {
      for (Report& without_dump : starts_.at(part).reports(paths))
        reports->push_back(std::make_shared<const Report>(std::move(without_dump)));
    } catch (const FileError& error) {
      log::error(error.what());
      readable = false;
    }
    starts_.erase(part);
    return readable;
  }
  // Deletes the dumps of a run that no reader will want.
  void drop(const std::string& part) const {
    std::error_code ignored;
    fs::remove_all(own(part), ignored);
  }
  // The report could not be written: the dumps stay, for another one.
  void keep() {
    if (!kept_) temporary_.keep();
    log::error("the dumps are kept: " + (path_ / kClean).string() + ", and the folders of runs beside it");
  }

  static constexpr char kClean[] = "clean";

 private:
  // Inside of `path_`, unless the user has named that one.
  fs::path own(const std::string& part) const { return fs::path(temporary_.path()) / part; }
  std::string pattern(const std::string& part) const {
    return pattern_of_path((path_ / part).string()) + "/" + kDefaultPattern;
  }

  CommandFolder temporary_;
  std::map<std::string, RunStartsFile> starts_;
  fs::path path_;
  bool kept_ = false;
};

// Progress of the sweep on stderr: a bar on a terminal, else a line for each run.
class SweepProgress {
 public:
  SweepProgress(std::size_t runs, bool lines)
      : runs_(runs), lines_(lines && ::isatty(STDERR_FILENO) != 1), bar_(runs) {}
  void ended(const Sweep& sweep, const SweepRun& run) {
    ++done_;
    bar_.done(std::to_string(sweep.findings.size()) + " found, " + std::to_string(sweep.count(SweepOutcome::kCrash)) +
              " crashed, " + std::to_string(sweep.count(SweepOutcome::kHang)) + " hung");
    if (!lines_) return;
    log::note(std::to_string(done_) + "/" + std::to_string(runs_) + " site " + site_name(run.site) + ": " +
              outcome_name(run.outcome));
  }

 private:
  std::size_t runs_;
  std::size_t done_ = 0;
  bool lines_;
  Progress bar_;
};

Environment environment_of(const SweepCommand& command, Environment environment, const std::string& fail) {
  environment.emplace_back("CULPRIT_FAIL", fail);
  if (!command.log.empty()) environment.emplace_back("CULPRIT_LOG", command.log);
  return environment;
}

// The sites to try, in order. Throws std::runtime_error when a requested site does not exist.
std::vector<AllocationSite> chosen_sites(const SweepCommand& command, const std::vector<AllocationSite>& all) {
  std::vector<AllocationSite> chosen;
  for (const std::string& text : command.sites) {
    std::uint64_t wanted = 0;
    parse_site(text, &wanted);
    const auto found = std::find_if(all.begin(), all.end(), [&](const auto& site) { return site.site == wanted; });
    if (found == all.end()) throw std::runtime_error(text + ": the clean run has no such allocation site");
    chosen.push_back(*found);
  }
  if (command.sites.empty()) chosen = all;
  if (command.max_runs != 0 && chosen.size() > command.max_runs) chosen.resize(command.max_runs);
  return chosen;
}

// Whether this run shows something that no run before it does.
bool is_first_of_its_kind(const Sweep& sweep, std::size_t number) {
  const SweepRun& run = sweep.runs[number];
  return run.outcome == SweepOutcome::kUnreadable ||
         std::any_of(run.findings.begin(), run.findings.end(),
                     [&](std::size_t finding) { return sweep.findings[finding].runs.front() == number; });
}

// Runs the command once for each run of `sweep`. Returns the signal that ends culprit, 0 for none.
int try_all(const SweepCommand& command, Dumps* dumps, Sweep* sweep) {
  // After a failure the program may try alternatives first, so it has much more time than the clean run took.
  const double limit = command.timeout > 0 ? command.timeout : 30 + 10 * sweep->clean.seconds;
  const bool to_stderr = command.output.output.empty() && command.output.format == "json";
  SweepProgress progress(sweep->runs.size(), !to_stderr);
  ChildPool pool;
  std::size_t next = 0;
  while (next < sweep->runs.size() || pool.running() != 0) {
    while (next < sweep->runs.size() && pool.running() < command.jobs) {
      const std::string rule = "alloc-site:" + site_name(sweep->runs[next].site);
      pool.start(next, command.command, environment_of(command, dumps->begin(std::to_string(next + 1)), rule),
                 std::chrono::duration<double>(limit), command.show_output);
      ++next;
    }
    std::size_t number = 0;
    PoolResult result;
    if (!pool.wait(std::chrono::hours(24), &number, &result)) {
      if (pool.signal_received() != 0) return pool.signal_received();
      continue;
    }
    const std::string part = std::to_string(number + 1);
    SweepRun& run = sweep->runs[number];
    run.result = result;
    Reports reports;
    const bool readable = dumps->read(part, command.output, &reports);
    judge_run(sweep, number, reports, readable);
    if (!is_first_of_its_kind(*sweep, number)) dumps->drop(part);
    progress.ended(*sweep, run);
  }
  return 0;
}

// The sweep's part of the exit code.
int verdict(const Sweep& sweep, const OutputOptions& options) {
  const auto asked = [&](const char* what) {
    if (options.fail_on.empty()) return options.error_exit_code != 0;
    return std::find(options.fail_on.begin(), options.fail_on.end(), what) != options.fail_on.end();
  };
  const bool errors = sweep.errors() + sweep.count(SweepOutcome::kCrash) + sweep.count(SweepOutcome::kHang) != 0;
  if ((asked("leaks") && sweep.leaks() != 0) || (asked("errors") && errors))
    return options.error_exit_code != 0 ? options.error_exit_code : kExitFound;
  return has_gate(options) && !reasons_not_known(sweep).empty() ? kExitNotKnown : kExitFine;
}

int write_sweep(const Sweep& sweep, const OutputOptions& options) {
  return write_output(options, DefaultStream::kStderr, [&](const Terminal& terminal, std::ostream& out) {
    if (options.format == "json") {
      render_sweep_json(sweep, out);
      return;
    }
    render_sweep_text(sweep, render_options(options, terminal), out);
  });
}

int sweep_all(const SweepCommand& command) {
  check_output_file(command.output.output, {});
  if (has_gate(command.output)) check_library();
  Dumps dumps(command.out);
  Sweep sweep;
  sweep.command = command.command;
  const auto start = std::chrono::steady_clock::now();
  sweep.clean.child = run_child(command.command, environment_of(command, dumps.begin(Dumps::kClean), "sites"));
  sweep.clean.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  const ChildResult& clean = sweep.clean.child;
  if (clean.start_errno != 0) {
    log::error(command.command.front() + ": " + std::strerror(clean.start_errno));
    return clean.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  if (clean.signalled) {
    log::error("the command was ended by a signal although nothing was made to fail: nothing to compare with");
    return -clean.code;
  }
  if (clean.code != 0)
    log::warning("the command ends with " + std::to_string(clean.code) + " although nothing was made to fail");
  if (!dumps.read(Dumps::kClean, command.output, &sweep.clean_reports)) {
    dumps.keep();
    return kExitUnreadable;
  }
  if (!sweep.clean_reports.empty()) tell_run_around(clean.pid, command.command.front());
  const std::vector<AllocationSite> all = sites_of(sweep.clean_reports);
  sweep.sites = all.size();
  for (const AllocationSite& site : chosen_sites(command, all)) {
    sweep.runs.emplace_back();
    sweep.runs.back().site = site;
  }
  const bool not_known = !reasons_not_known(sweep).empty();
  if (all.empty() && !not_known) {
    log::warning(
        std::string("no allocation was seen: ") +
        (sweep.clean_reports.empty()
             ? "the program made no CUDA call, or it is static or setuid, so that nothing can be preloaded into it"
             : "there is nothing to make fail"));
  }
  const int signal_number = try_all(command, &dumps, &sweep);
  if (signal_number != 0) return -signal_number;
  if (!all.empty() || not_known || command.output.format == "json" || !command.output.output.empty()) {
    const int written = write_sweep(sweep, command.output);
    if (written != kExitFine) {
      dumps.keep();
      return written;
    }
  }
  if (clean.code != 0) return clean.code;
  const bool hooked = std::any_of(sweep.clean_reports.begin(), sweep.clean_reports.end(),
                                  [](const auto& report) { return report->hook_called; });
  if (!hooked && !sweep.clean_reports.empty()) return kExitNotKnown;
  return verdict(sweep, command.output);
}

// Returns the clean run's exit code if it is not 0, else the one that --fail-on asks for. Does not return when a signal
// ended the clean run or culprit was sent one that ends it.
int run_sweep(const SweepCommand& command) {
  int result = 0;
  try {
    result = sweep_all(command);
  } catch (const std::exception& error) {
    log::failure(error);
    return kExitUnreadable;
  }
  return result < 0 ? die_like_child(-result) : result;
}

}  // namespace

Action declare_sweep(OptionList* options) {
  const auto command = std::make_shared<SweepCommand>();
  options->takes_program(&command->command, "culprit sweep --jobs 4 -- ./app --its-option");
  options->add("--jobs", &command->jobs, "Runs at the same time (default 1: they share the GPU)")
      .in_range(1, 256)
      .type("N");
  options
      ->add("--timeout", &command->timeout,
            "Seconds after which a run is killed and called a hang (default 30, and 10 times the clean run's)")
      .in_range(0.01, 1e6)
      .type("SECONDS");
  options->add("--max-runs", &command->max_runs, "Try the first N allocation sites only")
      .in_range(1U, 0xffffffffU)
      .type("N");
  options->add("--site", &command->sites, "Try this allocation site only, as an earlier sweep named it (repeatable)")
      .checked_by([](const std::string& text) {
        std::uint64_t site = 0;
        return parse_site(text, &site) ? std::string() : short_word(text) + ": 16 hex digits are needed";
      })
      .type("HEX");
  options->add("--show-output", &command->show_output,
               "Show the command's output in the runs with a failure too; that of the clean run is always shown");
  options->add("--out", &command->out, "Keep the dumps in the folder DIR: clean, 1, 2, ...").type("DIR");
  options
      ->add("--log", &command->log,
            "Diagnostics of libculprit.so in the program, on stderr (CULPRIT_LOG); --verbose is about culprit itself")
      .one_of({"off", "error", "warn", "info", "debug"})
      .type("LEVEL");
  add_output_options(options, &command->output, {"text", "json"});
  options->remove("--resources");
  options->remove("--fail-on");
  options
      ->add("--fail-on", &command->output.fail_on,
            "Exit with 1 when these are found: leaks, errors (bad frees, crashes and hangs), or none")
      .one_of({"leaks", "errors", "none"})
      .comma_separated()
      .type("WHAT");
  return [command] { return run_sweep(*command); };
}

}  // namespace culprit::report
