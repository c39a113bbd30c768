// Patterns: of suppressions, the first line is tried on the rest; of paths, the dumps of a run are looked for in a
// folder of their own; of symbols, each word is demangled.
#include <sstream>

#include "report/base/command_folder.h"
#include "report/dump/run_dumps.h"
#include "report/select/suppressions.h"
#include "report/symbols/demangle.h"
#include "tests/fuzz/fuzz.h"

using namespace culprit;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const report::CommandFolder folder;
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::string pattern = text.substr(0, text.find('\n'));
  report::matches_pattern(pattern, text.substr(std::min(pattern.size() + 1, text.size())));
  std::string name = pattern;
  for (char& c : name) {
    if (c == '/' || c == '\0') c = '%';
  }
  report::find_dumps(folder.path() + "/" + name, report::RunOfDumps());
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    report::function_name(word.c_str());
    report::variable_name(word.c_str());
    report::type_name(word);
  }
  return 0;
}
