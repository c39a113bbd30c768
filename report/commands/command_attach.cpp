// culprit attach PID, culprit detach PID: start and end recording in a running process.
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "report/attach/injector.h"
#include "report/attach/result_words.h"
#include "report/base/descriptor.h"
#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/base/shell_words.h"
#include "report/base/words.h"
#include "report/commands/commands.h"
#include "report/commands/output_options.h"
#include "report/dump/run_dumps.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "report/proc/proc_facts.h"
#include "report/proc/target_process.h"
#include "report/render/text/render_survivors.h"
#include "report/run/child_process.h"
#include "report/run/preload.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

struct AttachCommand {
  pid_t pid = 0;
  std::string out;       // empty: the working directory
  double seconds = 0;    // --for; 0: until culprit detach
  double time_out = 10;  // for attaching, and for detaching
  std::string backend = "redirect";
  std::optional<unsigned> depth;
  OutputOptions output;
};

struct DetachCommand {
  pid_t pid = 0;
  double time_out = 10;
};

std::string seconds_text(double seconds) { return format_time(static_cast<std::uint64_t>(seconds * 1e9)); }

milliseconds limit_of(double seconds) { return milliseconds(static_cast<long>(std::ceil(seconds * 1000))); }

// Looks for libculprit.so in this very process, not in its children.
TargetProcess look_for_library(const TracedProcess& process) {
  TargetProcess found;
  found.pid = static_cast<std::uint32_t>(process.pid());
  found.has_library = has_library("/proc", found.pid);
  if (found.has_library) found.dump = dump_of_process("/proc", found.pid);
  return found;
}

// Where the process writes its dump: by default the working directory, but /tmp if it has other files (a container).
std::string dump_pattern(const TracedProcess& process, const std::string& out) {
  if (!process.same_files()) {
    if (out.empty()) return std::string("/tmp/") + kDefaultPattern;
    if (out[0] != '/')
      throw AttachError(process.name() +
                        " has other files than culprit (a container): --out must be a path of its own " +
                        "that begins with /");
    return out;
  }
  return absolute_pattern(out.empty() ? kDefaultPattern : out);
}

InjectionOrder order_of(const AttachCommand& command, const TracedProcess& process) {
  InjectionOrder order;
  order.limit = limit_of(command.time_out);
  order.library = find_library();
  order.request.backend = command.backend == "cupti" ? format::AttachBackend::kCupti : format::AttachBackend::kRedirect;
  order.request.depth = command.depth ? static_cast<std::int32_t>(*command.depth) : -1;
  const std::string pattern = dump_pattern(process, command.out);
  if (pattern.size() >= sizeof(order.request.out)) throw AttachError(pattern + ": too long a path");
  std::strcpy(order.request.out, pattern.c_str());
  const char* cupti = std::getenv("CULPRIT_CUPTI");
  if (cupti != nullptr) std::snprintf(order.request.cupti, sizeof(order.request.cupti), "%s", cupti);
  return order;
}

int attach_failed(const std::string& message) {
  log::error(message);
  return kExitUnreadable;
}

std::string stop_text(const InjectionFacts& facts) {
  return "its threads were stopped for at most " + format_time(static_cast<std::uint64_t>(facts.longest_stop.count()));
}

void say_cut_calls(const InjectionFacts& facts) {
  if (facts.cut_calls != 0)
    log::line("note    " + plural(static_cast<std::uint64_t>(facts.cut_calls), "call", "calls") + " of the program (" +
              facts.cut_call + ") that had just begun may have returned early");
}

void say_attached(const TracedProcess& process, const format::AttachRequest& answer, const InjectionFacts& facts,
                  const std::string& dump, bool watched) {
  log::line("attached to " + printable(process.name()) + " in " +
            format_time(static_cast<std::uint64_t>(facts.took.count())) + "; " + stop_text(facts));
  log::line("note    " + std::to_string(answer.words + answer.slots) + " addresses of the driver replaced; " +
            format_bytes(facts.searched_bytes) + " searched while it ran");
  if (answer.search == 0)
    log::line("note    it has not used CUDA yet: its allocations are recorded from its first CUDA call on");
  if (answer.refused_slots != 0)
    log::line("note    " + plural(answer.refused_slots, "address", "addresses") +
              " of the driver could not be replaced (the memory is sealed): calls through them are not recorded");
  if (facts.unsearched_bytes != 0)
    log::line("note    too little time to search " + format_bytes(facts.unsearched_bytes) +
              " of its memory (again): calls through pointers there are not recorded; a longer --timeout helps");
  say_cut_calls(facts);
  log::line("dump    " + printable(dump));
  if (!watched)
    log::line("next    culprit report " + shell_path(dump) + "   at any time\n        culprit detach " +
              std::to_string(process.pid()) + "   ends it");
}

// Waits until the time is over, the process ends, or a signal arrives. The signals are blocked already.
void watch(const TracedProcess& process, double seconds, const sigset_t& signals) {
  const Descriptor ended(static_cast<int>(::syscall(SYS_pidfd_open, process.pid(), 0)));
  const Descriptor asked(::signalfd(-1, &signals, SFD_CLOEXEC));
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (process.is_alive()) {
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return;
    pollfd ready[] = {{asked.get(), POLLIN, 0}, {ended.get(), POLLIN, 0}};
    // Without a pidfd (before Linux 5.3) the process is polled.
    const auto longest = ended.get() >= 0 ? milliseconds(3600000) : milliseconds(200);
    ::poll(ready, ended.get() >= 0 ? 2 : 1, static_cast<int>(std::min(left, longest).count()));
    signalfd_siginfo info;
    if (ready[0].revents != 0 && ::read(asked.get(), &info, sizeof(info)) == sizeof(info)) return;
  }
}

int show_survivors(const AttachCommand& command, const TracedProcess& process, const Descriptor& file,
                   const std::string& dump) {
  OutputOptions output = command.output;
  if (output.load.symbols.sysroot.empty() && !process.same_files() && process.is_alive())
    output.load.symbols.sysroot = process.path_from_here("");
  std::vector<Report> reports;
  try {
    reports.push_back(load_with_progress("/proc/self/fd/" + std::to_string(file.get()), output.load));
  } catch (const DumpError& error) {
    return attach_failed(error.what());
  }
  reports.front().dump_path = dump;
  const int written = output.format != "text" ? write_reports(reports, output, DefaultStream::kStdout, true)
                                              : write_output(output, DefaultStream::kStdout,
                                                             [&](const Terminal& terminal, std::ostream& out) {
                                                               RenderOptions shown = render_options(output, terminal);
                                                               // A container's files go with its last process.
                                                               shown.kept = std::filesystem::exists(dump);
                                                               render_survivors(reports.front(), shown, out);
                                                             });
  return written != kExitFine ? written : gate_result(reports, output);
}

int record_for(const AttachCommand& command, const TracedProcess& process, const format::AttachRequest& answer,
               const std::string& dump, const sigset_t& signals) {
  // Opened now, because a container's files are out of reach once its process has ended.
  const Descriptor file(open_in_process("/proc", static_cast<std::uint32_t>(process.pid()), answer.dump));
  log::line("recording for " + seconds_text(command.seconds) + "; Ctrl-C ends it early");
  watch(process, command.seconds, signals);
  int failed = kExitFine;
  if (process.is_alive()) {
    InjectionOrder order;
    order.what = Injection::kDetach;
    order.limit = limit_of(command.time_out);
    order.library = find_library();
    try {
      InjectionFacts facts;
      const std::string problem = describe_result(process, inject(process, order, &facts));
      if (!problem.empty()) failed = attach_failed(problem);
    } catch (const AttachError& error) {
      if (process.is_alive()) failed = attach_failed(std::string("not detached: ") + error.what());
    }
  } else {
    log::line("note    the process has ended");
  }
  if (file.get() < 0) return attach_failed(dump + ": cannot be opened from here");
  const int shown = show_survivors(command, process, file, dump);
  return failed != kExitFine ? failed : shown;
}

// Like run_detach(), returns kExitUnreadable, with a message on stderr, on failure.
int run_attach(const AttachCommand& command) try {
  check_output_file(command.output.output, {});
  const TracedProcess process(command.pid);
  process.check_attachable();
  const TargetProcess present = look_for_library(process);
  format::Header header = {};
  const bool mapped = !present.dump.empty() && read_header("/proc", present, &header);
  // An attach whose command was killed is begun anew.
  if (mapped && (header.attach_flags & format::kAttachUnfinished) == 0) {
    const bool preloaded = header.attached == format::Attached::kNo;
    return attach_failed(
        describe_result(process, preloaded ? format::AttachResult::kPreloaded : format::AttachResult::kAlready) +
        "\n         its dump: culprit report " + shell_path(present.dump));
  }
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, number);
  // From here on a signal aborts the current step and undoes it, so that the process is never left half attached.
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  InjectionFacts facts;
  const format::AttachRequest answer = inject(process, order_of(command, process), &facts);
  if (facts.interrupted != 0) {
    log::error("interrupted; " + printable(process.name()) + " is as it was");
    return die_like_child(facts.interrupted);
  }
  const std::string problem = describe_result(process, answer);
  if (!problem.empty()) return attach_failed(problem);
  const std::string dump = process.same_files() ? answer.dump : process.path_from_here(answer.dump);
  say_attached(process, answer, facts, dump, command.seconds > 0);
  if (command.seconds <= 0) return kExitFine;
  return record_for(command, process, answer, dump, signals);
} catch (const std::exception& error) {
  log::failure(error);
  return kExitUnreadable;
}

int run_detach(const DetachCommand& command) try {
  const TracedProcess process(command.pid);
  process.check_attachable();
  const TargetProcess present = look_for_library(process);
  if (!present.has_library) return attach_failed(describe_result(process, format::AttachResult::kNotAttached));
  format::Header header = {};
  if (!present.dump.empty() && read_header("/proc", present, &header) && header.attached == format::Attached::kNo)
    return attach_failed(describe_result(process, format::AttachResult::kPreloaded));
  InjectionOrder order;
  order.what = Injection::kDetach;
  order.limit = limit_of(command.time_out);
  order.library = find_library();
  InjectionFacts facts;
  const format::AttachRequest answer = inject(process, order, &facts);
  const std::string problem = describe_result(process, answer);
  if (facts.interrupted != 0 && answer.result != format::AttachResult::kDone) {
    log::error("interrupted; " + printable(process.name()) + " is attached as before");
    return die_like_child(facts.interrupted);
  }
  if (answer.result == format::AttachResult::kNoMemory) {
    return attach_failed(
        "recording in " + printable(process.name()) +
        " has ended, but it has no room to look at its own memory: its CUDA calls still go through the library, " +
        "which passes them on; try again later");
  }
  if (!problem.empty()) return attach_failed(problem);
  const std::string dump = process.same_files() ? answer.dump : process.path_from_here(answer.dump);
  log::line("detached from " + printable(process.name()) + "; " + stop_text(facts));
  say_cut_calls(facts);
  if (!dump.empty()) log::line("next    culprit report " + shell_path(dump));
  return kExitFine;
} catch (const std::exception& error) {
  log::failure(error);
  return kExitUnreadable;
}

template <typename AnyCommand>
void add_process(OptionList* options, const std::shared_ptr<AnyCommand>& command) {
  options->add("PID", &command->pid, "The process").positive().type("");
  options->add("--timeout", &command->time_out, "Give up after this time (10s)").time().type("TIME");
  options->add_check([command] { return std::string(command->pid == 0 ? "no process named" : ""); });
}

}  // namespace

Action declare_attach(OptionList* options) {
  const auto command = std::make_shared<AttachCommand>();
  add_process(options, command);
  options->add("--out", &command->out, "Where the process writes its dump (culprit.%n.%p.dump in this directory)")
      .type("FILE");
  options
      ->add("--for", &command->seconds,
            "Detach after this time (60s, 5m), and show the memory that was allocated in it and is still live")
      .time()
      .type("TIME");
  options
      ->add("--backend", &command->backend,
            "redirect: replace the driver's addresses in the process; cupti: callbacks of NVIDIA's CUPTI, which "
            "shuts out profilers meanwhile")
      .one_of({"redirect", "cupti"})
      .shows_default();
  options->add("--depth", &command->depth, "Frames kept of a stack, 0 for no stacks (default 64)")
      .in_range(0, 256)
      .type("N");
  add_output_options(options, &command->output, {"text", "json"});
  options->remove("--fail-on");
  options
      ->add(
          "--fail-on", &command->output.fail_on,
          "With --for: exit with 1 when these are found: leaks (memory that is still live), errors, resources, or none")
      .one_of({"leaks", "errors", "resources", "none"})
      .comma_separated()
      .type("WHAT");
  options->add_check([command] {
    const OutputOptions& output = command->output;
    const bool reports = !output.output.empty() || !output.fail_on.empty() || output.error_exit_code != 0;
    return std::string(command->seconds <= 0 && reports ? "without --for there is no report: -o, --fail-on and "
                                                          "--error-exitcode need it"
                                                        : "");
  });
  return [command] { return run_attach(*command); };
}

Action declare_detach(OptionList* options) {
  const auto command = std::make_shared<DetachCommand>();
  add_process(options, command);
  return [command] { return run_detach(*command); };
}

}  // namespace culprit::report
