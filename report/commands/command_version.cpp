// culprit version DUMP: prints the version of libculprit.so that wrote a dump.
#include <iostream>
#include <memory>
#include <string>

#include "report/base/exit_codes.h"
#include "report/commands/commands.h"
#include "report/dump/dump_reader.h"

namespace culprit::report {
namespace {

int run_version(const std::string& path) try {
  const Dump dump = Dump::open(path);
  std::cout << dump.string(dump.header().tool_version) << "\n";
  return kExitFine;
} catch (const DumpError& error) {
  std::cerr << "culprit: " << error.what() << "\n";
  return kExitUnreadable;
}

}  // namespace

Action declare_version(OptionList* options) {
  const auto path = std::make_shared<std::string>();
  options->add("DUMP", path.get(), "The dump").is_required().type("");
  return [path] { return run_version(*path); };
}

}  // namespace culprit::report
