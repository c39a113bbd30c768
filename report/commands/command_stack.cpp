// culprit stack PID|DUMP NUMBER...: the stacks that the probes of libculprit.so (interpose/events/probes.h) name by
// their numbers.
#include <unistd.h>

#include <cstdint>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/base/descriptor.h"
#include "report/base/environment.h"
#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/commands/commands.h"
#include "report/doctor/dump_places.h"
#include "report/dump/dump_error.h"
#include "report/dump/dump_reader.h"
#include "report/model/stacks.h"
#include "report/proc/process_folder.h"
#include "report/proc/target_process.h"
#include "report/render/text/render_stacks.h"
#include "report/select/render_options.h"
#include "report/symbols/symbol_cache.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {
namespace {

struct StackCommand {
  std::string target;
  std::vector<std::string> numbers;
};

Dump open_dump(const std::string& proc, const DumpPlace& place) {
  if (place.pid == 0) return Dump::open(place.dump);
  const std::string name = "process " + std::to_string(place.pid);
  if (!place.problem.empty()) throw DumpError(DumpProblem::kCannotOpen, place.problem);
  if (place.dump.empty()) throw DumpError(DumpProblem::kCannotOpen, name + " has made no CUDA call");
  const Descriptor file(open_in_process(proc, place.pid, place.dump));
  if (!file.is_open())
    throw DumpError(DumpProblem::kCannotOpen, "the dump of " + name + ", " + place.dump + ", cannot be read");
  return Dump::open("/proc/self/fd/" + std::to_string(file.get()));
}

int run_stack(const StackCommand& command) try {
  const std::string proc = value_or("CULPRIT_PROC", kProc);
  const DumpPlace place = place_of(proc, command.target);
  const Dump dump = open_dump(proc, place);
  std::vector<format::Ref> numbers;
  for (const std::string& number : command.numbers) numbers.push_back(*whole_number(number));
  SymbolOptions symbols;
  symbols.cache_folder = symbol_cache_folder();
  if (place.pid != 0) symbols.sysroot = ProcessFolder(proc, place.pid).living().root();
  StackResolver resolver(
      dump, [&symbols](std::vector<ModuleSymbols>& modules) { look_up_symbols(modules, symbols); }, false);
  resolver.resolve(numbers);
  const Terminal terminal = terminal_of(STDOUT_FILENO);
  RenderOptions options;
  options.colours = terminal.colours;
  options.columns = terminal.columns;
  render_stacks(dump, resolver, numbers, options, std::cout);
  std::cout.flush();
  int result = std::cout ? kExitFine : kExitUnreadable;
  for (const format::Ref number : numbers) {
    StackView view;
    if (dump.stack(number, &view)) continue;
    log::error("stack " + std::to_string(number) + " is not in " + place.dump +
               ": the number is of another process, or nothing has the stack any more");
    result = kExitUnreadable;
  }
  return result;
} catch (const DumpError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

Action declare_stack(OptionList* options) {
  const auto command = std::make_shared<StackCommand>();
  options->add("PID|DUMP", &command->target, "A process under culprit, or the dump of one").type("").is_required();
  options->add("NUMBER", &command->numbers, "The argument `stack` of the probes culprit:alloc and culprit:free")
      .type("")
      .is_required()
      .checked_by([](const std::string& number) -> std::string {
        return whole_number(number) ? "" : "\"" + number + "\" is no number of a stack: a probe gives numbers as 4711";
      });
  return [command] { return run_stack(*command); };
}

}  // namespace culprit::report
