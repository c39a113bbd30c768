// culprit run -- command...: runs a program under libculprit.so and reports its leaks and those of its children.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "interpose/format/run_starts.h"
#include "report/attach/exit_stopper.h"
#include "report/attach/untold_starts.h"
#include "report/base/clock.h"
#include "report/base/command_folder.h"
#include "report/base/environment.h"
#include "report/base/exit_codes.h"
#include "report/base/failure.h"
#include "report/base/file_error.h"
#include "report/base/host_name.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/shell_words.h"
#include "report/base/words.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/commands/selection_options.h"
#include "report/doctor/failure_watch.h"
#include "report/doctor/gpu_answerer.h"
#include "report/doctor/run_charges.h"
#include "report/dump/run_dumps.h"
#include "report/merge/load_many.h"
#include "report/merge/run_file.h"
#include "report/model/pool.h"
#include "report/model/report.h"
#include "report/proc/process_folder.h"
#include "report/render/formats.h"
#include "report/run/child_process.h"
#include "report/run/fail_options.h"
#include "report/run/framework_caches.h"
#include "report/run/launchers.h"
#include "report/run/obstacles.h"
#include "report/run/preload.h"
#include "report/run/run_starts.h"
#include "report/select/selection.h"

namespace culprit::report {
namespace {

struct RunCommand {
  std::vector<std::string> command;
  bool keep = false;
  bool paused = false;
  bool require_cuda = false;
  std::string wait;
  double wait_seconds = 0;
  std::string out;
  std::string scan;
  std::optional<unsigned> depth;  // frames per stack; empty: the library's default
  std::string log;
  bool no_framework_caches = false;
  bool torch_history = false;
  bool audit = false;
  FailOptions fail;
  OutputOptions output;
  SelectionOptions selection;
};

// "30", "30s", "5m", "1h"
std::optional<double> seconds_of(const std::string& text) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (end == text.c_str() || factor == 0 || !(number >= 0 && number * factor <= 1e7)) return std::nullopt;
  return number * factor;
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? "" : std::filesystem::absolute(path).lexically_normal().string();
}

int start_failure(const std::string& command, int error) {
  log::error(command + ": " + std::strerror(error));
  return error == ENOENT ? kExitNotFound : kExitNotExecutable;
}

// --torch-history needs the view from inside Python, which may be missing.
bool history_is_missing(const std::vector<Report>& reports) {
  bool wanted = false;
  for (const Report& report : reports) {
    if (!report.caches_inside.empty()) return false;
    for (const CacheTotal& cache : report.summary.caches) {
      wanted = wanted || std::string(cache.pool->name).compare(0, 7, "PyTorch") == 0;
    }
  }
  return wanted;
}

// How the command itself ended. Of the processes below it nothing is known but their marks.
std::optional<ChildEnd> end_of(const ChildResult& child) {
  if (child.pid <= 0 || child.start_ticks == 0) return std::nullopt;
  return ChildEnd{{own_pid_namespace("/proc"), static_cast<std::uint32_t>(child.pid), child.start_ticks},
                  child.signalled,
                  child.code};
}

// For later reports; empty: it did not fail.
std::string failure_of(const ChildResult& child) {
  if (child.signalled) return "was ended by " + signal_text(child.code);
  return child.code == 0 ? std::string() : "ended with exit code " + std::to_string(child.code);
}

// No report names a dump that will be gone.
void forget_dumps(std::vector<Report>* reports) {
  for (Report& report : *reports) {
    report.dump_path.clear();
    for (JobProcess& process : report.job) process.dump_path.clear();
  }
}

std::string deed_of(const UntoldStart& start) {
  switch (start.what) {
    case Untold::kElsewhere:
      return "recorded in a root directory or with mounts of its own: its dump is not here";
    case Untold::kUnseen:
      return "has loaded the driver without libculprit.so, so that none of its calls was seen: LD_PRELOAD was dropped "
             "(su, sudo, env -i), or the library is not there (a container), or the program is static";
    case Untold::kNotReadable:
      return "is another user's and could not be looked at: it is not known whether it called CUDA";
    case Untold::kRunsOn:
      return "runs on after the command: it has loaded the driver, and records nothing so far";
    case Untold::kRecordsOn:
      return "runs on after the command: memory that it has, and that it will allocate, is not judged (--wait 30s)";
    case Untold::kFailed:
      break;
  }
  return {};
}

// `charged`: by NVML. `dumps`: that were found. A process that recorded is known, though this one may not look at it.
std::vector<Report> reports_of(const std::vector<UntoldStart>& untold, const std::vector<UnseenProcess>& charged,
                               const std::vector<std::string>& dumps) {
  std::set<std::pair<std::uint32_t, std::uint64_t>> recorded;
  for (const std::string& dump : dumps) {
    if (const std::optional<format::Header> header = header_of_dump(dump))
      recorded.emplace(header->pid, header->start_time_ticks);
  }
  std::vector<Report> reports;
  std::set<int> told;
  for (const UnseenProcess& process : charged) {
    const bool has_dump = recorded.count({static_cast<std::uint32_t>(process.pid), process.start_ticks}) != 0 ||
                          recorded.count({process.own_number, process.start_ticks}) != 0;
    const bool better_known = std::any_of(untold.begin(), untold.end(), [&](const UntoldStart& start) {
      return start.pid == process.pid && start.what != Untold::kNotReadable;
    });
    if (has_dump || better_known) continue;
    reports.push_back(report_of_deed(process.pid, process.program, deed_of(process)));
    told.insert(process.pid);
  }
  for (const UntoldStart& start : untold) {
    if (told.count(start.pid) != 0) continue;
    if (start.what == Untold::kNotReadable &&
        recorded.count({static_cast<std::uint32_t>(start.pid), start.start_ticks}) != 0)
      continue;
    const std::string deed = deed_of(start);
    reports.push_back(deed.empty() ? report_without_dump(start.pid, start.program, reason_without_dump(start.error, ""))
                                   : report_of_deed(start.pid, start.program, deed));
  }
  return reports;
}

// "2 processes went on after the command, without CUDA so far: sleep, sh"
std::string lives_on_text(const std::vector<UntoldStart>& others, const std::vector<UnseenProcess>& charged) {
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> programs;
  for (const UntoldStart& other : others) {
    const bool has_memory = std::any_of(charged.begin(), charged.end(),
                                        [&](const UnseenProcess& process) { return process.pid == other.pid; });
    if (!has_memory) programs.push_back(other.program);
  }
  if (programs.empty()) return {};
  std::string text =
      plural(programs.size(), "process", "processes") + " went on after the command, without CUDA so far: ";
  for (std::size_t i = 0; i < programs.size() && i < kNamed; ++i) text += (i == 0 ? "" : ", ") + programs[i];
  return text + (programs.size() > kNamed ? ", ..." : "");
}

// The fact that is known to stand against recording, or what it can be.
std::string reason_for_nothing_seen(const std::vector<std::string>& command) {
  const std::vector<Obstacle> obstacles = examine_program(command, {::geteuid(), ::getegid()}).obstacles;
  if (!obstacles.empty()) return obstacles.front().fact + " (culprit why -- " + shell_command(command) + ")";
  return "the program made none, or nothing could be preloaded into it (a static or setuid program, or an environment "
         "without LD_PRELOAD; culprit help troubleshooting)";
}

// How long processes that outlive the command are waited for. Python's resource tracker and fork server end a moment
// after it.
std::chrono::milliseconds wait_of(const RunCommand& command) {
  constexpr std::chrono::milliseconds kGrace{1000};
  return std::max(kGrace, std::chrono::milliseconds(static_cast<std::int64_t>(command.wait_seconds * 1000)));
}

// The report's part of the exit code; `failed`: the processes that could not record.
int report_run(const std::vector<std::string>& paths, const std::vector<Report>& failed, const std::string& lives_on,
               const std::vector<std::string>& notes, const ChildResult& child, const RunCommand& command,
               Selection* selection, bool kept) {
  check_output_file(command.output.output, paths);
  LoadOptions options = command.output.load;
  options.machine.child = end_of(child);
  LoadedReports loaded = load_many(paths, options, command.output.job);
  std::vector<Report>& reports = loaded.reports;
  reports.insert(reports.begin(), failed.begin(), failed.end());
  if (!kept) forget_dumps(&reports);
  if (!has_marks(reports, command.output)) return kExitUnreadable;
  if (!has_devices(reports, command.selection)) return kExitUnreadable;
  add_missing_ranks(!is_a_rank(), &reports);
  require_complete(command.output, &reports);
  if (!lives_on.empty()) tell_lives_on(command.output, {lives_on}, &reports);
  tell_notes(notes, &reports);
  selection->apply(command.output.load.judge.strict, &reports);
  std::uint64_t injected = 0;
  for (const Report& report : reports) injected += report.injected_failures;
  if (!fail_environment(command.fail).empty() && !reports.empty() && injected == 0)
    log::warning("no call was made to fail: the program ended before the chosen call");
  if (command.torch_history && history_is_missing(reports)) {
    log::warning(
        "--torch-history had no effect: the program ended without Python's exit handlers, its Python is one that "
        "culprit "
        "does not read, or CULPRIT_PYTHON=0 is set");
  }
  const auto tell_nothing_seen = command.require_cuda ? log::error : log::warning;
  if (reports.empty() && !loaded.unreadable && command.paused) {
    tell_nothing_seen(
        "nothing was recorded: recording was never switched on (culprit start PID), or no CUDA call was made after "
        "that");
  } else if (reports.empty() && !loaded.unreadable) {
    tell_nothing_seen("no CUDA call was seen: " + reason_for_nothing_seen(command.command));
  }
  // With JSON or an output file a report is always written, even if there is nothing in it.
  if (!reports.empty() || command.output.format != "text" || !command.output.output.empty()) {
    OutputOptions output = command.output;
    output.shown.nothing_known = loaded.unreadable || (command.require_cuda && reports.empty());
    const int written = write_reports(reports, output, DefaultStream::kStderr, kept);
    if (written != kExitFine) return written;
  }
  if (loaded.unreadable) return kExitUnreadable;
  const bool baseline_written = selection->write(command.output.load.judge.strict, reports);
  const int found = gate_result(reports, command.output);
  if (found != kExitFine) return found;
  if (!baseline_written) return kExitNotKnown;
  if (reports.empty()) return command.require_cuda ? kExitNotKnown : kExitFine;
  for (const Report& report : reports) {
    if (report.hook_called) return kExitFine;
  }
  return kExitNotKnown;
}

// Where the dumps of a run go, and what the command itself needs while it lasts. Throws std::runtime_error.
class RunPlace {
 public:
  explicit RunPlace(const RunCommand& command) : run_starts_(folder_.path()) {
    record_.id = new_run_id();
    record_.command = command.command;
    record_.host = host_name();
    record_.start_realtime_ns = realtime_ns();
    record_.whole_job = !is_a_rank();
    if (!command.out.empty()) {
      pattern_ = absolute_pattern(command.out);
    } else if (command.keep) {
      pattern_ = absolute_pattern(value_or("CULPRIT_OUT", kDefaultPattern));
    } else {
      pattern_ = pattern_of_path(folder_.path()) + "/" + kDefaultPattern;
      kept_ = false;
    }
    if (kept_) try_pattern(pattern_);
    write_run_file(fixed_folder_of(pattern_), record_);
  }
  const std::string& pattern() const { return pattern_; }
  // A folder for files that the command needs.
  const std::string& folder() const { return folder_.path(); }
  void set_lives_on(const std::string& sentence) { record_.lives_on = sentence; }
  void set_notes(const std::vector<std::string>& sentences) { record_.notes = sentences; }
  RunOfDumps run() const { return {record_.start_realtime_ns, record_.id}; }
  // Writes what is known of the run beside its dumps. Throws FileError.
  void finish(const ChildResult& child, const std::vector<std::string>& dumps,
              const std::vector<Report>& without_dump) {
    record_.ended = true;
    record_.failure = failure_of(child);
    if (const std::optional<ChildEnd> end = end_of(child)) record_.end = EndOfRun{*end, boot_id("/proc")};
    std::set<std::string> folders = {fixed_folder_of(pattern_)};
    for (const std::string& dump : dumps) {
      if (const std::optional<format::Header> header = header_of_dump(dump))
        record_.dumps.push_back({dump, header->pid, header->start_realtime_ns});
      folders.insert(dump.substr(0, dump.rfind('/') + 1));
    }
    record_.without_dump = processes_without_dump(without_dump);
    for (const std::string& folder : folders) write_run_file(folder, record_);
  }
  RunStartsFile& run_starts() { return run_starts_; }
  bool kept() const { return kept_; }
  // The report could not be made: the dumps stay, for another one.
  void keep(const std::vector<std::string>& dumps) {
    if (!kept_ && !dumps.empty()) folder_.keep();
    for (const std::string& dump : dumps) log::error("the dump is kept: culprit report " + shell_path(dump));
  }

 private:
  CommandFolder folder_;
  RunStartsFile run_starts_;
  RunRecord record_;
  std::string pattern_;
  bool kept_ = true;
};

// Without the file of the run, for example on a full disk, a later report of the dumps does not know what was recorded.
void finish(RunPlace* place, const ChildResult& child, const std::vector<std::string>& dumps,
            const std::vector<Report>& without_dump) {
  try {
    place->finish(child, dumps, without_dump);
  } catch (const FileError& error) {
    log::warning(error.what());
  }
}

bool searches_for_lost(const RunCommand& command) {
  return (command.scan.empty() ? value_or("CULPRIT_SCAN", "") : command.scan) == "lost";
}

// Returns the command's own exit code if it is not 0, else the report's. If a signal ended the command, this does not
// return: culprit ends with the same signal.
int run_program(const RunCommand& command) {
  std::optional<Selection> selection;
  std::optional<RunPlace> place;
  std::optional<UntoldStarts> untold;
  std::optional<GpuAnswerer> answerer;
  std::optional<ExitStopper> stopper;
  Environment environment;
  std::string failures;
  try {
    failures = fail_environment(command.fail);
  } catch (const std::exception& error) {
    log::failure(error);
    return kExitUsage;
  }
  try {
    selection.emplace(command.selection);
    check_output_file(command.output.output, command.selection.files());
    place.emplace(command);
    if (place->pattern() == pattern_of_path(absolute_path(command.output.output)))
      throw FileError(command.output.output + ": is the dump of --out, and would be lost; choose another file for -o");
    if (has_gate(command.output) || command.selection.compares()) check_library();
    environment = preload_environment(place->pattern(), place->folder());
    const Environment starts = place->run_starts().variables();
    environment.insert(environment.end(), starts.begin(), starts.end());
    environment.emplace_back("CULPRIT_RUN_ID", place->run().id);
    untold.emplace(starts.front().first + "=" + starts.front().second);
    answerer.emplace(starts.front().second);
    if (searches_for_lost(command)) stopper.emplace(starts.front().second);
  } catch (const std::exception& error) {
    log::failure(error);
    return kExitUnreadable;
  }

  if (!command.scan.empty()) environment.emplace_back("CULPRIT_SCAN", command.scan);
  if (command.depth) environment.emplace_back("CULPRIT_DEPTH", std::to_string(*command.depth));
  if (command.paused) environment.emplace_back("CULPRIT_START", "signal");
  if (!command.log.empty()) environment.emplace_back("CULPRIT_LOG", command.log);
  if (command.no_framework_caches) {
    for (auto& variable : framework_cache_switches()) environment.push_back(std::move(variable));
  }
  if (command.audit) environment.emplace_back("CULPRIT_AUDIT", "1");
  if (command.torch_history) environment.emplace_back("CULPRIT_TORCH_HISTORY", "1");
  if (!failures.empty()) environment.emplace_back("CULPRIT_FAIL", failures);

  std::vector<std::string> program = command.command;
  forward_environment(&program, &environment);
  FailureWatch watch(place->pattern(), place->run());
  RunCharges charges(*untold);
  const auto look = [&] {
    try {
      place->run_starts().look();
      untold->look();
      charges.look();
    } catch (const std::exception& error) {
      log::debug("the processes of the run cannot be watched", error);
    }
    return watch.look();
  };
  const ChildResult child = run_child(program, environment, look, [&](pid_t started) { untold->begin_with(started); });
  if (child.start_errno != 0) {
    const int code = start_failure(command.command.front(), child.start_errno);
    ChildResult not_started;
    not_started.code = code;
    finish(&*place, not_started, {}, {});
    return code;
  }
  // Whatever fails from here on: the command's exit code counts.
  if (child.signalled) {
    exit_code_of_failure = kExitSignalled + child.code;
  } else if (child.code != 0) {
    exit_code_of_failure = child.code;
  }
  log::debug("the program ended with " +
             (child.signalled ? signal_text(child.code) : "exit code " + std::to_string(child.code)));
  watch.finish();
  answerer->end();
  if (stopper) stopper->end();
  int found = kExitUnreadable;
  std::vector<std::string> dumps;
  try {
    const std::vector<UntoldStart> found_processes = untold->finish(wait_of(command));
    charges.finish();
    const std::vector<UnseenProcess> charged = charges.found();
    const std::string lives_on = lives_on_text(untold->others(), charged);
    dumps = find_dumps(place->pattern(), place->run());
    std::vector<Report> failed = reports_of(found_processes, charged, dumps);
    std::vector<Report> told = place->run_starts().reports(dumps);
    std::move(told.begin(), told.end(), std::back_inserter(failed));
    if (!dumps.empty() || !failed.empty()) tell_run_around(child.pid, command.command.front());
    place->set_lives_on(lives_on);
    place->set_notes(charges.notes());
    finish(&*place, child, dumps, failed);
    found = report_run(dumps, failed, lives_on, charges.notes(), child, command, &*selection, place->kept());
  } catch (const std::exception& error) {  // FileError, or no memory for the report
    log::failure(error);
  }
  try {
    if (found == kExitUnreadable) place->keep(dumps);
  } catch (const std::exception& error) {
    log::failure(error);
  }
  answerer.reset();
  stopper.reset();
  place.reset();
  if (child.signalled) return die_like_child(child.code);
  return child.code != 0 ? child.code : found;
}

void add_fail_options(OptionList* options, FailOptions* fail) {
  options
      ->add("--fail-alloc", &fail->allocations,
            "Make the Nth call that allocates memory fail as out of memory (repeatable)")
      .checked_by(check_fail_allocation)
      .type("N");
  options
      ->add("--fail-call", &fail->calls,
            "Make the Nth call of a driver function return CODE, a number or a name (repeatable):\n"
            "cuMemcpyHtoD:1:CUDA_ERROR_ILLEGAL_ADDRESS; without its version a name means all of them")
      .checked_by(check_fail_call)
      .type("NAME:N:CODE");
}

}  // namespace

Action declare_run(OptionList* options) {
  const auto command = std::make_shared<RunCommand>();
  options->takes_program(&command->command, "culprit run --keep -- ./app --its-option");
  options->add("--keep", &command->keep,
               "Keep the dumps: in the working directory, or where --out or CULPRIT_OUT says");
  options->add("--out", &command->out, "Keep the dumps as PATTERN: %p pid, %h host, %n executable, %q{VAR} environment")
      .type("PATTERN");
  options->add("--paused", &command->paused,
               "Record nothing until `culprit start PID` or signal USR2 (CULPRIT_SIGNAL) switches recording on");
  options->add("--require-cuda", &command->require_cuda,
               "Exit with 4 when no CUDA call was seen, so that a gate cannot pass without having seen anything");
  options
      ->add(
          "--wait", &command->wait,
          "Wait so long for processes that go on after the command, and report when they have ended: 30s, 5m (default: "
          "1s)")
      .checked_by([command](const std::string& text) {
        const std::optional<double> seconds = seconds_of(text);
        if (seconds) command->wait_seconds = *seconds;
        return seconds ? std::string() : short_word(text) + ": a time is needed, for example 30s or 5m";
      })
      .type("TIME");
  options->add("--no-framework-caches", &command->no_framework_caches, framework_cache_help());
  options->add("--torch-history", &command->torch_history,
               "Let PyTorch record the Python line of each tensor, for what its cache holds (needs the Python package "
               "culprit in the program's environment)");
  options->add(
      "--audit", &command->audit,
      "Check that nothing is missed: compare what is recorded with the callbacks of NVIDIA's CUPTI, which only one "
      "tool in a process can use (a profiler of the program keeps it)");
  options
      ->add("--scan", &command->scan,
            "At exit search globals and the heap for memory that was not freed (exit), also all memory for memory that "
            "no pointer is left to (lost), or nothing (off; CULPRIT_SCAN, default: exit)")
      .one_of({"exit", "lost", "off"})
      .type("WHAT");
  options->add("--depth", &command->depth, "Frames kept of a stack, 0 for no stacks (default 64)")
      .in_range(0, 256)
      .type("N");
  options
      ->add("--log", &command->log,
            "Diagnostics of libculprit.so in the program, on stderr (CULPRIT_LOG); --verbose is about culprit itself")
      .one_of({"off", "error", "warn", "info", "debug"})
      .type("LEVEL");
  add_fail_options(options, &command->fail);
  add_output_options(options, &command->output, report_formats(), "Write the report to FILE instead of stderr");
  add_job_options(options, &command->output);
  add_selection_options(options, &command->selection, &command->output);
  return [command] { return run_program(*command); };
}

}  // namespace culprit::report
