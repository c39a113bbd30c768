// The culprit command: finds the sub-command and calls it. The sub-commands are rows of report/commands/commands.def.
#include <error.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <list>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/failure.h"
#include "report/base/inherited_signals.h"
#include "report/base/log.h"
#include "report/base/printable_stream.h"
#include "report/commands/commands.h"

namespace {

using namespace culprit::report;

constexpr char kAbout[] =
    "Finds GPU memory that a CUDA program never gave back, and names the code that allocated it and the reason.";

constexpr char kExitCodes[] =
    "Exit codes: 0 fine; 1 (or --error-exitcode N) --fail-on found something; 2 wrong usage; 3 an input cannot be "
    "read,\n"
    "or an output cannot be written; 4 not known: --fail-on, --error-exitcode or --baseline was given and something "
    "was "
    "not\n"
    "recorded, or no CUDA call was seen. `culprit run` and `culprit sweep` pass the command's own exit code through.";

// Removes the words after the first "--": they are the command of `culprit run` or `sweep`, not for the parser.
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
  log::error(message + "\nTry: culprit" + (command.empty() ? "" : " " + command) + " --help");
  return kExitUsage;
}

// If culprit was started with closed standard descriptors, opens them, so that no file gets such a number and output
// printed into it. Reading from them finds nothing, and writing to them fails. They are closed again for a command that
// is run.
void fill_standard_descriptors() {
  int descriptor = 0;
  do {
    descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  } while (descriptor >= 0 && descriptor <= STDERR_FILENO);
  if (descriptor >= 0) ::close(descriptor);
}

// All text for standard output must have been written: "culprit --help > /dev/full" fails.
int after_output(int code) {
  std::cout.flush();
  if (std::cout || code != kExitFine) return code;
  log::error("the output could not be written completely");
  return kExitUnreadable;
}

// The options for the number of messages on stderr.
struct Verbosity {
  unsigned verbose = 0;
  bool quiet = false;

  std::list<Option> options() {
    OptionList list("", "");
    list.add("-v,--verbose", Option::Count{&verbose},
             "Say on stderr which files are read and how long each step takes; -vv: each attempt, too (CULPRIT_LOG and "
             "--log are about the library in the program)");
    list.add("-q,--quiet", &quiet, "Say nothing but errors on stderr: no warnings, notes, hints and progress");
    return list.options();
  }

  log::Level level() const {
    if (quiet) return log::Level::kQuiet;
    return verbose == 0 ? log::Level::kNormal : verbose == 1 ? log::Level::kVerbose : log::Level::kTrace;
  }
};

int run_culprit(std::vector<std::string> arguments) {
  const std::vector<Command> commands = make_commands();
  // The options before the sub-command take no values.
  const auto first = std::find_if(arguments.begin(), arguments.end(),
                                  [](const std::string& word) { return word.compare(0, 1, "-") != 0; });
  const auto takes_program = [&](const Command& one) {
    return one.options.program() && first != arguments.end() && one.options.command() == *first;
  };
  std::vector<std::string> words;
  bool separated = false;
  if (std::any_of(commands.begin(), commands.end(), takes_program)) {
    const std::size_t before = arguments.size();
    words = take_command(&arguments);
    separated = arguments.size() != before;
  }

  std::vector<const OptionList*> lists;
  lists.reserve(commands.size());
  for (const Command& command : commands) lists.push_back(&command.options);
  Verbosity verbosity;
  const Parsed parsed = parse_arguments(
      {"culprit", "culprit " CULPRIT_VERSION, kAbout, kExitCodes, verbosity.options()}, lists, arguments);
  if (parsed.outcome == Parsed::Outcome::kShown) return kExitFine;
  if (parsed.outcome == Parsed::Outcome::kWrong)
    return usage_error(parsed.problem, parsed.command == nullptr ? "" : parsed.command->command());
  if (verbosity.quiet && verbosity.verbose != 0)
    return usage_error("--quiet excludes --verbose", parsed.command->command());
  log::set_level(verbosity.level());

  if (parsed.command->program()) {
    // `culprit run ./app --flag`, without "--": the command begins at the first word that is not an option of culprit.
    std::vector<std::string> before = parsed.program_words;
    if (!before.empty()) {
      if (before.front().compare(0, 1, "-") == 0)
        return usage_error("unknown option " + before.front(), parsed.command->command());
      if (separated) before.push_back("--");
      words.insert(words.begin(), before.begin(), before.end());
    }
    if (words.empty()) return usage_error("no command to run", parsed.command->command());
    *parsed.command->program()->words = words;
  }
  for (const Command& command : commands) {
    if (&command.options == parsed.command) return command.run();
  }
  return kExitUsage;
}

// Before the first static object of any library: they need memory, too.
[[gnu::constructor(101)]] void prepare_for_a_lack_of_memory() {
  std::set_terminate(end_at_terminate);
  // libdw ends a process without memory by error(3), with the exit code of a gate that found something.
  ::error_print_progname = [] { end_without_memory(); };
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  ignore_file_size_signal();
  try {
    const PrintableStream out(std::cout, ::isatty(STDOUT_FILENO) == 1);
    const PrintableStream messages(std::cerr, ::isatty(STDERR_FILENO) == 1);
    return after_output(run_culprit({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    log::failure(error);
  }
  return kExitUnreadable;
}
