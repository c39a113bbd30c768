// The culprit command: finds the sub-command and calls it. The sub-commands are rows of report/commands/commands.def.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/failure.h"
#include "report/base/inherited_signals.h"
#include "report/base/printable_stream.h"
#include "report/commands/commands.h"

namespace {

using namespace culprit::report;

constexpr char kAbout[] = "Finds GPU memory that a CUDA program never gave back, and says who allocated it and why.";

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
  std::cerr << "culprit: " << printable_lines(message) << "\nTry: culprit" << (command.empty() ? "" : " " + command)
            << " --help\n";
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

// What is written to standard output must have arrived: "culprit --help > /dev/full" fails.
int after_output(int code) {
  std::cout.flush();
  if (std::cout || code != kExitFine) return code;
  std::cerr << "culprit: the output could not be written completely\n";
  return kExitUnreadable;
}

int run_culprit(std::vector<std::string> arguments) {
  const std::vector<Command> commands = make_commands();
  const auto takes_program = [&](const Command& one) {
    return one.options.program() && !arguments.empty() && one.options.command() == arguments.front();
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
  const Parsed parsed = parse_arguments({"culprit", "culprit " CULPRIT_VERSION, kAbout, kExitCodes}, lists, arguments);
  if (parsed.outcome == Parsed::Outcome::kShown) return kExitFine;
  if (parsed.outcome == Parsed::Outcome::kWrong)
    return usage_error(parsed.problem, parsed.command == nullptr ? "" : parsed.command->command());

  if (parsed.command->program()) {
    // `culprit run ./app --flag`, without "--": the command begins at the first word that is not an option of culprit.
    std::vector<std::string> first = parsed.program_words;
    if (!first.empty()) {
      if (first.front().compare(0, 1, "-") == 0)
        return usage_error("unknown option " + first.front(), parsed.command->command());
      if (separated) first.push_back("--");
      words.insert(words.begin(), first.begin(), first.end());
    }
    if (words.empty()) return usage_error("no command to run", parsed.command->command());
    *parsed.command->program()->words = words;
  }
  for (const Command& command : commands) {
    if (&command.options == parsed.command) return command.run();
  }
  return kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_descriptors();
  ignore_file_size_signal();
  const PrintableStream out(std::cout, ::isatty(STDOUT_FILENO) == 1);
  const PrintableStream messages(std::cerr, ::isatty(STDERR_FILENO) == 1);
  try {
    return after_output(run_culprit({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "culprit: " << failure_text(error) << "\n";
  }
  return kExitUnreadable;
}
