// culprit watch PID|NAME|-- COMMAND: which stacks leak while the program runs, as verdicts and as an exit code. The
// program is never stopped: all is read from its dump.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/attach/untold_starts.h"
#include "report/base/byte_size.h"
#include "report/base/clock.h"
#include "report/base/command_folder.h"
#include "report/base/descriptor.h"
#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/words.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/commands/watch_loop.h"
#include "report/dump/dump_error.h"
#include "report/dump/run_dumps.h"
#include "report/merge/run_file.h"
#include "report/model/report.h"
#include "report/proc/proc_facts.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"
#include "report/render/json/watch_json.h"
#include "report/render/text/render_watch.h"
#include "report/run/child_process.h"
#include "report/run/launchers.h"
#include "report/run/preload.h"
#include "report/run/run_starts.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr double kDefaultTime = 30 * 60;

struct WatchCommand {
  std::string target;  // a pid, or the name of a program; empty: `program`
  std::vector<std::string> program;
  std::string least;  // --grow
  WatchSettings settings;
  OutputOptions output;
};

// "1MiB", "1MiB/min", "64KiB/s", "2GiB/h": bytes per minute.
std::optional<double> rate_of(const std::string& text) {
  const std::size_t slash = text.find('/');
  const std::optional<std::uint64_t> bytes = parse_bytes(text.substr(0, slash));
  if (!bytes) return std::nullopt;
  if (slash == std::string::npos) return static_cast<double>(*bytes);
  const std::string unit = text.substr(slash + 1);
  const double factor = unit == "s" ? 60 : unit == "m" || unit == "min" ? 1 : unit == "h" ? 1.0 / 60 : 0;
  if (factor == 0) return std::nullopt;
  return static_cast<double>(*bytes) * factor;
}

bool has_name(const ProcessFolder& process, const std::string& name) {
  if (process.name() == name) return true;
  const std::string program = process.link("exe");
  return !program.empty() && program.substr(program.rfind('/') + 1) == name;
}

// Throws DumpError when there is not exactly one such process that records.
TargetProcess target_of(const std::string& text) {
  TargetProcess found;
  if (const std::optional<std::uint32_t> pid = whole_number(text)) {
    found = find_target(kProc, *pid);
  } else {
    std::vector<std::uint32_t> recording;
    std::optional<std::uint32_t> other;
    for_each_entry(kProc, [&](const char* entry) {
      const std::optional<std::uint32_t> number = whole_number(entry);
      if (!number || !has_name(ProcessFolder(kProc, *number), text)) return;
      if (has_library(kProc, *number)) {
        recording.push_back(*number);
      } else if (!other || *number < *other) {
        other = number;
      }
    });
    std::string several;
    for (const std::uint32_t number : recording) several += " " + std::to_string(number);
    if (recording.size() > 1)
      throw DumpError(DumpProblem::kCannotOpen,
                      "several processes " + short_word(text) + " run under culprit: name one of" + several);
    if (recording.empty() && !other)
      throw DumpError(DumpProblem::kCannotOpen,
                      "no process " + short_word(text) + " runs here; culprit watch -- COMMAND starts one");
    found = find_target(kProc, recording.empty() ? *other : recording.front());
  }
  const std::string number = std::to_string(found.pid);
  if (found.without_library) found.problem += ": culprit attach " + number + " records its allocations from then on";
  if (found.problem.empty() && found.detached)
    found.problem = "process " + number + " was detached, and records nothing: culprit attach " + number;
  if (found.problem.empty() && found.dump.empty())
    found.problem = "process " + number + " has recorded nothing yet: " +
                    (found.waits_for_signal ? "culprit start " + number : "it has made no CUDA call");
  if (!found.problem.empty()) throw DumpError(DumpProblem::kCannotOpen, found.problem);
  return found;
}

int exit_code_of(const WatchResult& result) {
  switch (outcome_of(result)) {
    case WatchOutcome::kLeaking:
      return kExitFound;
    case WatchOutcome::kSteady:
      return kExitFine;
    case WatchOutcome::kNotKnown:
      break;
  }
  return kExitNotKnown;
}

int show_result(const WatchCommand& command, const WatchResult& result, DefaultStream stream) {
  const int written = write_output(command.output, stream, [&](const Terminal& terminal, std::ostream& out) {
    if (command.output.format == "json") {
      render_watch_json(result, out);
    } else {
      render_watch(result, render_options(command.output, terminal), out);
    }
  });
  return written != kExitFine ? written : exit_code_of(result);
}

// Returns true when a signal came before the time was over.
bool wait_for_signal(const Descriptor& signals, milliseconds time) {
  pollfd ready = {signals.get(), POLLIN, 0};
  return ::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(time.count(), 3600000))) > 0;
}

int watch_process(const WatchCommand& command) {
  const TargetProcess target = target_of(command.target);
  SymbolOptions symbols = command.output.load.symbols;
  if (symbols.sysroot.empty()) symbols.sysroot = ProcessFolder(kProc, target.pid).living().root();
  // Opened now: a container's files are out of reach once its process has ended.
  const Descriptor file(open_in_process(kProc, target.pid, target.dump));
  if (!file.is_open()) throw DumpError(DumpProblem::kCannotOpen, target.dump + ": " + std::strerror(errno));
  WatchSettings settings = command.settings;
  settings.full_stacks = command.output.load.full_stacks;
  if (settings.seconds == 0) settings.seconds = kDefaultTime;
  sigset_t asked;
  sigemptyset(&asked);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&asked, number);
  ::sigprocmask(SIG_BLOCK, &asked, nullptr);
  const Descriptor signals(::signalfd(-1, &asked, SFD_CLOEXEC));
  log::line("watching process " + std::to_string(target.pid) + " for " + long_time_text(settings.seconds) +
            "; Ctrl-C ends it early");
  WatchLoop loop(settings, symbols);
  const std::string path = "/proc/self/fd/" + std::to_string(file.get());
  bool ended = false;
  while (true) {
    const bool goes_on = loop.sample("", path, target.pid);
    ended = ended || !goes_on;
    if (ended || loop.is_over()) break;
    if (wait_for_signal(signals, loop.pause())) break;
    // A killed process leaves a dump that says that it runs: one more sample, and the end.
    ended = ProcessFolder(kProc, target.pid).has_ended();
    if (ended) break;
  }
  if (!ended) loop.look_inside_at_the_end();
  return show_result(command, loop.finish(ended), DefaultStream::kStdout);
}

// Why it is not known what some processes of the run did.
std::vector<std::string> unseen_of(UntoldStarts* untold, RunStartsFile* starts, const std::vector<std::string>& dumps) {
  std::vector<std::string> sentences;
  for (const UntoldStart& start : untold->finish(milliseconds(1000))) {
    if (start.what == Untold::kRecordsOn || start.what == Untold::kRunsOn) continue;
    sentences.push_back(start.program + " [" + std::to_string(start.pid) + "] was not recorded" +
                        (start.error != 0 ? ": " + reason_without_dump(start.error, "") : ""));
  }
  for (const Report& report : starts->reports(dumps))
    sentences.push_back("process " + std::to_string(report.process.pid) + " was not recorded");
  return sentences;
}

int watch_program(const WatchCommand& command) {
  check_library();
  const CommandFolder folder;
  RunStartsFile starts(folder.path());
  const std::string pattern = pattern_of_path(folder.path()) + "/" + kDefaultPattern;
  const RunOfDumps run = {realtime_ns(), new_run_id()};
  Environment environment = preload_environment(pattern, folder.path());
  const Environment variables = starts.variables();
  environment.insert(environment.end(), variables.begin(), variables.end());
  environment.emplace_back("CULPRIT_RUN_ID", run.id);
  std::vector<std::string> program = command.program;
  forward_environment(&program, &environment);
  UntoldStarts untold(variables.front().first + "=" + variables.front().second);
  WatchSettings settings = command.settings;
  settings.full_stacks = command.output.load.full_stacks;
  WatchLoop loop(settings, command.output.load.symbols);
  pid_t pid = 0;
  bool stopped = false;
  std::set<std::string> ended;
  const auto look = [&]() -> milliseconds {
    constexpr milliseconds kUntilFirst{20};
    constexpr milliseconds kUntilKilled{10000};
    milliseconds pause = kUntilFirst;
    try {
      bool sampled = false;
      starts.look();
      untold.look();
      for (const std::string& dump : find_dumps_quietly(pattern, run)) {
        if (!stopped && ended.count(dump) == 0 && !loop.sample(dump, dump, 0)) ended.insert(dump);
        sampled = true;
      }
      if (sampled) pause = loop.pause();
    } catch (const std::exception& error) {
      log::debug("a sample failed", error);
    }
    if (!loop.is_over()) return pause;
    if (!stopped) loop.look_inside_at_the_end();
    // A command that does not end by SIGTERM is killed.
    ::kill(pid, stopped ? SIGKILL : SIGTERM);
    stopped = true;
    return kUntilKilled;
  };
  const ChildResult child = run_child(program, environment, look, [&](pid_t started) {
    pid = started;
    untold.begin_with(started);
  });
  if (child.start_errno != 0) {
    log::error(command.program.front() + ": " + std::strerror(child.start_errno));
    return child.start_errno == ENOENT ? kExitNotFound : kExitNotExecutable;
  }
  const std::vector<std::string> dumps = find_dumps_quietly(pattern, run);
  WatchResult result = loop.finish(!stopped);
  for (std::string& sentence : unseen_of(&untold, &starts, dumps)) result.reasons.push_back(std::move(sentence));
  if (result.processes.empty())
    result.reasons.emplace_back(dumps.empty() ? "no CUDA call was seen (culprit why -- COMMAND)"
                                              : "the command ended before it was looked at");
  const int code = show_result(command, result, DefaultStream::kStderr);
  if (stopped) return code;
  if (child.signalled) return die_like_child(child.code);
  return child.code != 0 ? child.code : code;
}

int run_watch(const WatchCommand& command) try {
  check_output_file(command.output.output, {});
  return command.target.empty() ? watch_program(command) : watch_process(command);
} catch (const std::exception& error) {
  log::failure(error);
  return kExitUnreadable;
}

}  // namespace

Action declare_watch(OptionList* options) {
  const auto command = std::make_shared<WatchCommand>();
  options
      ->add("PID|NAME", &command->target,
            "A process under culprit (or the culprit run that started it), or the name of its program")
      .type("");
  options->takes_program(&command->program, "culprit watch --for 30m -- ./server", &command->target);
  options
      ->add("--for", &command->settings.seconds,
            "Watch for so long (default: 30m; a command until it ends). A command that runs on is ended by "
            "SIGTERM, after 10s by SIGKILL")
      .time()
      .type("TIME");
  options
      ->add("--every", &command->settings.every,
            "Time between two samples (default: a 600th of --for, at least 100ms and at most 5s; 1s)")
      .time()
      .type("TIME");
  options
      ->add("--grow", &command->least,
            "Memory that grows more slowly does not leak: 1MiB, 64KiB/s, 2GiB/h; per minute without a unit of time")
      .checked_by([command](const std::string& text) {
        const std::optional<double> rate = rate_of(text);
        if (rate) command->settings.least_per_minute = *rate;
        return rate ? std::string() : short_word(text) + ": a rate is needed, for example 1MiB/min or 64KiB/s";
      })
      .type("RATE");
  options
      ->add("--exec", &command->settings.exec,
            "Run this shell command once for each row that becomes LEAKING, with CULPRIT_WATCH_... in its environment")
      .type("CMD");
  options->add(
      "--tensors", &command->settings.tensors,
      "Where live tensors of PyTorch leak, look inside the interpreter, which stops for at most 50ms each time: "
      "name the variables that keep more and more");
  add_format_options(options, &command->output, {"text", "json"}, "text, json", "Write the verdicts to FILE");
  options->add("--all", &command->output.shown.all, "Steady rows, too");
  add_symbol_options(options, &command->output);
  return [command] { return run_watch(*command); };
}

}  // namespace culprit::report
