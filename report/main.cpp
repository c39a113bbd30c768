// The culprit command: parses the arguments only. Each subcommand has a file of its own.
#include <fcntl.h>
#include <unistd.h>
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/commands/command_attach.h"
#include "report/commands/command_diff.h"
#include "report/commands/command_doctor.h"
#include "report/commands/command_merge.h"
#include "report/commands/command_report.h"
#include "report/commands/command_run.h"
#include "report/commands/command_sweep.h"
#include "report/commands/command_switch.h"
#include "report/commands/command_top.h"

namespace {

constexpr char kAbout[] = "Finds GPU memory that a CUDA program never gave back, and says who allocated it and why.";

constexpr char kExitCodes[] =
    "Exit codes: 0 fine; 1 (or --error-exitcode N) --fail-on found something; 2 wrong usage; 3 an input cannot be "
    "read;\n"
    "4 a CUDA library was loaded but no hook was ever called. `culprit run` and `culprit sweep` pass the command's own "
    "exit code "
    "through.";

// Removes the words after the first "--": they are the command of `culprit run` or `sweep`, not for CLI11.
std::vector<std::string> take_command(std::vector<std::string>* arguments) {
  std::vector<std::string> command;
  for (std::size_t i = 0; i < arguments->size(); ++i) {
    if ((*arguments)[i] != "--") continue;
    command.assign(arguments->begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments->end());
    arguments->resize(i);
    break;
  }
  return command;
}

int usage_error(const std::string& message, const std::string& command) {
  std::cerr << "culprit: " << message << "\nTry: culprit" << (command.empty() ? "" : " " + command) << " --help\n";
  return culprit::report::kExitUsage;
}

// If culprit was started with closed standard descriptors, opens them, so that no file gets such a number and output
// printed into it. They are closed again for a command that is run.
void fill_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool running = !arguments.empty() && (arguments.front() == "run" || arguments.front() == "sweep");
  std::vector<std::string> words;
  bool separated = false;
  if (running) {
    const std::size_t before = arguments.size();
    words = take_command(&arguments);
    separated = arguments.size() != before;
  }

  CLI::App app(kAbout, "culprit");
  app.set_version_flag("--version", "culprit " CULPRIT_VERSION);
  app.require_subcommand(1);
  app.footer(kExitCodes);

  culprit::report::RunCommand run_command;
  CLI::App* run =
      app.add_subcommand("run", "Run a command and report the GPU memory that it and its children never freed");
  run->footer(std::string("Give the command after --:  culprit run --keep -- ./app --its-option\n\n") + kExitCodes);
  run->prefix_command();
  culprit::report::add_run_command(run, &run_command);

  culprit::report::SweepCommand sweep_command;
  CLI::App* sweep = app.add_subcommand(
      "sweep", "Run a command again and again, failing one allocation each time, and report what only then leaks");
  sweep->footer(std::string("Give the command after --:  culprit sweep --jobs 4 -- ./app --its-option\n\n") +
                kExitCodes);
  sweep->prefix_command();
  culprit::report::add_sweep_command(sweep, &sweep_command);

  culprit::report::ReportCommand report_command;
  CLI::App* report = app.add_subcommand("report", "Show what dumps of finished or running processes hold");
  report->footer(kExitCodes);
  culprit::report::add_report_command(report, &report_command);

  culprit::report::DiffCommand diff_command;
  CLI::App* diff = app.add_subcommand("diff", "Say which leaks are new, gone, grown and shrunk between two runs");
  diff->footer(kExitCodes);
  culprit::report::add_diff_command(diff, &diff_command);

  culprit::report::MergeCommand merge_command;
  CLI::App* merge = app.add_subcommand("merge", "Make one file of a job's dumps, to be reported and merged again");
  merge->footer(kExitCodes);
  culprit::report::add_merge_command(merge, &merge_command);

  culprit::report::DoctorCommand doctor_command;
  CLI::App* doctor = app.add_subcommand("doctor", "Say who holds the GPUs' memory now, and what brings it back");
  doctor->footer(kExitCodes);
  culprit::report::add_doctor_command(doctor, &doctor_command);

  culprit::report::AttachCommand attach_command;
  CLI::App* attach = app.add_subcommand("attach", "Record from now on in a process that runs already");
  attach->footer(kExitCodes);
  culprit::report::add_attach_command(attach, &attach_command);
  culprit::report::DetachCommand detach_command;
  CLI::App* detach = app.add_subcommand("detach", "End what `culprit attach` began, and leave the process as it was");
  culprit::report::add_detach_command(detach, &detach_command);
  culprit::report::SwitchCommand switch_command;
  CLI::App* start = app.add_subcommand("start", "Switch recording on in a process that culprit run --paused started");
  CLI::App* stop = app.add_subcommand("stop", "Switch recording off: nothing new is recorded, frees still are");
  for (CLI::App* one : {start, stop}) culprit::report::add_switch_command(one, &switch_command);

  culprit::report::TopCommand top_command;
  CLI::App* top = app.add_subcommand("top", "Show who holds how much GPU memory now, while the process runs");
  culprit::report::add_top_command(top, &top_command);

  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error);
      return culprit::report::kExitFine;
    }
    const auto chosen = app.get_subcommands();
    return usage_error(error.what(), chosen.empty() ? "" : chosen.front()->get_name());
  }

  if (run->parsed() || sweep->parsed()) {
    const CLI::App* starter = run->parsed() ? run : sweep;
    // `culprit run ./app --flag`, without "--": the command begins at the first word that is not an option of culprit.
    std::vector<std::string> first = starter->remaining();
    if (!first.empty()) {
      if (first.front().compare(0, 1, "-") == 0)
        return usage_error("unknown option " + first.front(), starter->get_name());
      if (separated) first.push_back("--");
      words.insert(words.begin(), first.begin(), first.end());
    }
    if (words.empty()) return usage_error("no command to run", starter->get_name());
    if (sweep->parsed()) {
      sweep_command.command = words;
      return culprit::report::run_sweep_command(sweep_command);
    }
    run_command.command = words;
    return culprit::report::run_run_command(run_command);
  }
  if (attach->parsed() && attach_command.pid == 0) return usage_error("no process named", "attach");
  if (detach->parsed() && detach_command.pid == 0) return usage_error("no process named", "detach");
  if (attach->parsed()) return culprit::report::run_attach_command(attach_command);
  if (detach->parsed()) return culprit::report::run_detach_command(detach_command);
  if (diff->parsed()) return culprit::report::run_diff_command(diff_command);
  if (top->parsed()) return culprit::report::run_top_command(top_command);
  if (start->parsed() || stop->parsed()) return culprit::report::run_switch_command(switch_command, start->parsed());
  if (merge->parsed()) return culprit::report::run_merge_command(merge_command);
  if (doctor->parsed()) return culprit::report::run_doctor_command(doctor_command);
  if (report_command.dumps.empty()) return usage_error("no dump named", "report");
  return culprit::report::run_report_command(report_command);
}
