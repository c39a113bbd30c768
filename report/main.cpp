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

#include "report/base/cut_off_files.h"
#include "report/base/exit_codes.h"
#include "report/base/failure.h"
#include "report/base/inherited_signals.h"
#include "report/base/log.h"
#include "report/base/printable_stream.h"
#include "report/base/terminal.h"
#include "report/commands/commands.h"
#include "report/commands/common_options.h"

namespace {

using namespace culprit::report;

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

int run_culprit(std::vector<std::string> arguments, PrintableStream* out, PrintableStream* messages) {
  const std::vector<Command> commands = make_commands();
  // Of the options before the sub-command only --color takes a value.
  bool is_value = false;
  const auto first = std::find_if(arguments.begin(), arguments.end(), [&](const std::string& word) {
    const bool found = !is_value && word.compare(0, 1, "-") != 0;
    is_value = word == "--color";
    return found;
  });
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
  CommonOptions common;
  const Usage usage = program_usage("culprit " CULPRIT_VERSION, &common);
  const Parsed parsed = parse_arguments(usage, lists, arguments);
  if (parsed.outcome == Parsed::Outcome::kShown) return kExitFine;
  if (parsed.outcome == Parsed::Outcome::kWrong)
    return usage_error(parsed.problem, parsed.command == nullptr ? "" : parsed.command->command());
  if (common.quiet && common.verbose != 0) return usage_error("--quiet excludes --verbose", parsed.command->command());
  choose_colours(common.colours());
  if (common.colours() == Colours::kAlways) {
    out->set_terminal(true);
    messages->set_terminal(true);
  }
  log::set_level(common.level());

  if (parsed.command->program()) {
    // `culprit run ./app --flag`, without "--": the command begins at the first word that is not an option of culprit.
    std::vector<std::string> before = parsed.program_words;
    if (!before.empty()) {
      if (before.front().compare(0, 1, "-") == 0)
        return usage_error("unknown option " + before.front() + similar_option(before.front(), usage, *parsed.command),
                           parsed.command->command());
      if (separated) before.push_back("--");
      words.insert(words.begin(), before.begin(), before.end());
    }
    const std::string* const instead = parsed.command->program()->instead;
    const bool named = instead != nullptr && !instead->empty();
    if (words.empty() && !named)
      return usage_error(instead == nullptr ? "no command to run" : "no process named, and no command after --",
                         parsed.command->command());
    if (!words.empty() && named)
      return usage_error(*instead + " and a command: name one of them", parsed.command->command());
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
  watch_for_cut_off_files();
  try {
    PrintableStream out(std::cout, ::isatty(STDOUT_FILENO) == 1);
    PrintableStream messages(std::cerr, ::isatty(STDERR_FILENO) == 1);
    const int code = after_output(run_culprit({argv + 1, argv + argc}, &out, &messages));
    if (!has_cut_off_files()) return code;
    log::error("a file was cut off while it was read, so that names in the report may be wrong: repeat the command");
    return code == kExitFine || code == kExitNotKnown ? kExitUnreadable : code;
  } catch (const std::exception& error) {
    log::failure(error);
  }
  return exit_code_of_failure;
}
