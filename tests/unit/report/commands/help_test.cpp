// The help, suggestions for words that do not exist, and --color.
#include <filesystem>
#include <sstream>
#include <string>
#include <utility>

#include "report/commands/commands.h"
#include "tests/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/text.h"
#include "tests/unit/report/fixture.h"
#include "tests/unit/report/shell.h"

using namespace culprit::report;
using namespace culprit::test;

TEST_CASE("culprit help shows the same as --help", "[report][cli][help][one-thread]") {
  CHECK(shell("CULPRIT help").out == shell("CULPRIT --help").out);
  for (const Command& command : make_commands()) {
    const std::string& name = command.options.command();
    INFO(name);
    const std::string options = shell("CULPRIT " + name + " --help").out;
    CHECK(shell("CULPRIT help " + name).out.substr(0, options.size()) == options);
  }
  CHECK(shell("CULPRIT -V").out == shell("CULPRIT --version").out);
}

TEST_CASE("the usage line has the program that a command starts", "[report][cli][help][one-thread]") {
  for (const Command& command : make_commands()) {
    const std::string& name = command.options.command();
    INFO(name);
    const std::string help = shell("CULPRIT help " + name).out;
    CHECK(has(help, "Usage: culprit " + name));
    CHECK((help.find(" -- COMMAND [ARGUMENT...]\n") != std::string::npos) == command.options.program().has_value());
  }
}

TEST_CASE("descriptions in the help have 100 columns at most", "[report][cli][help][one-thread]") {
  for (const Command& command : make_commands()) {
    std::istringstream help(shell("CULPRIT " + command.options.command() + " --help").out);
    for (std::string line; std::getline(help, line);) {
      INFO(line);
      if (line.compare(0, 30, std::string(30, ' ')) == 0) CHECK(line.size() <= 100);
    }
  }
}

TEST_CASE("each option of a long list has a heading in the help", "[report][cli][help]") {
  // A failure here: a row of option_groups.cpp is missing.
  bool grouped = false;
  for (const Command& command : make_commands()) {
    if (command.options.options().size() <= 12) continue;
    grouped = true;
    for (const Option& option : command.options.options()) {
      INFO(command.options.command() << " " << option.names);
      if (option.names[0] == '-') CHECK(!option.group.empty());
    }
  }
  CHECK(grouped);
}

TEST_CASE("a word that does not exist is answered with a similar one", "[report][cli][help]") {
  const std::pair<const char*, const char*> rows[] = {
      {"rnu -- ./app", "rnu is no command (did you mean run?)"},
      {"repotr x.dump", "repotr is no command (did you mean report?)"},
      {"xyzzy", "xyzzy is no command\n"},
      {"help swep", "swep is no command (did you mean sweep?)"},
      {"report --fulll-stacks x", "--fulll-stacks (did you mean --full-stacks?)"},
      {"report --sorted=bytes x", "--sorted=bytes (did you mean --sort?)"},
      {"run --keeep -- true", "unknown option --keeep (did you mean --keep?)"},
      {"run --bogus-option -- true", "unknown option --bogus-option\n"},
  };
  for (const auto& [words, expected] : rows) {
    INFO(words);
    const Finished finished = shell(std::string("CULPRIT ") + words);
    CHECK(finished.exit_code == 2);
    CHECK(has(finished.err, expected));
    CHECK(finished.out.empty());
  }
}

TEST_CASE("the option --color chooses colours, whatever the output is", "[report][cli][help]") {
  TemporaryFolder folder;
  const std::string path = folder.file("leaky.dump");
  DumpBuilder dump;
  dump.add_allocation(live_allocation(0, 11001));
  dump.write(path);
  const std::string escape = "\033[";
  const auto out = [&](const std::string& words) { return shell("CULPRIT " + words).out; };
  CHECK(out("report --color=always " + path).find(escape) != std::string::npos);
  CHECK(out("--color always report " + path).find(escape) != std::string::npos);
  CHECK(shell("NO_COLOR=1 CULPRIT report --color=always " + path).out.find(escape) != std::string::npos);
  for (const char* words : {"report ", "report --color auto ", "report --color=never "}) {
    INFO(words);
    CHECK(out(words + path).find(escape) == std::string::npos);
  }
  CHECK(shell("CULPRIT report --color=always /none.dump").err.find(escape) != std::string::npos);
  CHECK(shell("CULPRIT report --color=maybe " + path).exit_code == 2);
  // A file has none.
  CHECK(shell("CULPRIT report --color=always " + path + " -o " + folder.file("report.txt")).exit_code == 0);
  CHECK(file_text(folder.file("report.txt")).find(escape) == std::string::npos);
}
