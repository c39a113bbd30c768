// culprit help [COMMAND | TOPIC]: the text of culprit [COMMAND] --help, and the page of the manual with this name.
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/commands/commands.h"
#include "report/commands/common_options.h"
#include "report/manual/manual.h"
#include "report/manual/page_text.h"

namespace culprit::report {
namespace {

constexpr std::size_t kWidestPage = 100;

void show_page(const std::string& topic) {
  const std::size_t columns = terminal_of(STDOUT_FILENO).columns;
  std::cout << page_text(manual_page(topic), columns == 0 ? kWidestPage : std::min(columns, kWidestPage));
}

void show_options(const std::string& name, const std::vector<const OptionList*>& lists) {
  CommonOptions ignored;
  std::vector<std::string> words = {"--help"};
  if (!name.empty()) words.insert(words.begin(), name);
  parse_arguments(program_usage("", &ignored), lists, words);
}

// "": there is a command or a page of this name.
std::string unknown_word(const std::string& name, const std::vector<const OptionList*>& lists) {
  if (!manual_page(name).empty()) return "";
  const std::string problem = unknown_command(name, lists);
  const bool has_advice = problem.empty() || problem.back() == ')';
  const std::string similar = has_advice ? "" : similar_word(name, manual_topics());
  return similar.empty() ? problem : problem + " (did you mean " + similar + "?)";
}

int show_help(const std::string& name) {
  const std::vector<Command> commands = make_commands();
  std::vector<const OptionList*> lists;
  lists.reserve(commands.size());
  for (const Command& command : commands) lists.push_back(&command.options);
  const bool is_page = !name.empty() && !manual_page(name).empty();
  const std::string problem = name.empty() ? "" : unknown_word(name, lists);
  if (!problem.empty()) {
    log::error(problem + "\nTry: culprit help");
    return kExitUsage;
  }
  // A command's name wins: its options come first.
  const bool is_command = name.empty() || unknown_command(name, lists).empty();
  if (is_command) show_options(name, lists);
  if (is_command && is_page) std::cout << "\n";
  if (is_page) show_page(name);
  return kExitFine;
}

}  // namespace

Action declare_help(OptionList* options) {
  const auto name = std::make_shared<std::string>();
  options->add("COMMAND", name.get(),
               "One of the commands, or a page of the manual; without it: all commands and pages");
  return [name] { return show_help(*name); };
}

}  // namespace culprit::report
