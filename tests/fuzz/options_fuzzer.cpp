// Command lines: the words of the input, each ended by a line feed. They are parsed and not carried out.
#include <iostream>
#include <sstream>

#include "report/base/byte_size.h"
#include "report/commands/commands.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word);) {
    report::parse_bytes(word);
    report::parse_growth(word);
    words.push_back(word);
  }
  const std::vector<report::Command> commands = report::make_commands();
  std::vector<const report::OptionList*> lists;
  for (const report::Command& command : commands) lists.push_back(&command.options);
  std::streambuf* out = std::cout.rdbuf(fuzz::nowhere().rdbuf());
  report::parse_arguments({"culprit", "version", "about", "footer"}, lists, words);
  std::cout.rdbuf(out);
  return 0;
}
