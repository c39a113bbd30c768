// culprit top PID|DUMP...: who holds GPU memory now: a screen on a terminal, text or JSON elsewhere.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/host_name.h"
#include "report/base/log.h"
#include "report/base/printable.h"
#include "report/commands/commands.h"
#include "report/commands/printed_top.h"
#include "report/dump/dump_error.h"
#include "report/screen/top_screen.h"

namespace culprit::report {
namespace {

struct TopCommand {
  PrintedTop printed;
  std::optional<unsigned> rows;
  std::string format = "text";
  bool once = false;
};

int run_top(const TopCommand& command) try {
  PrintedTop printed = command.printed;
  if (command.once) printed.times = 1;
  if (command.rows) printed.rows = *command.rows;
  if (command.format == "json") return print_top_json(printed);
  if (printed.times == 0) {
    TopSettings settings;
    settings.by = printed.by;
    settings.most_rows = command.rows;
    settings.host = printable(host_name());
    const std::optional<int> shown = run_top_screen(printed.targets, printed.interval, settings);
    if (shown) return *shown;
  }
  return print_top(printed);
} catch (const DumpError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

Action declare_top(OptionList* options) {
  const auto command = std::make_shared<TopCommand>();
  PrintedTop* const printed = &command->printed;
  options
      ->add("PID|DUMP", &printed->targets,
            "Processes under culprit (or the culprit run that started them), or dumps; without them the screen has all "
            "processes that record, and the text all processes of each GPU")
      .type("");
  options->add("--once", &command->once, "Print one look, without the screen");
  options->add("--interval", &printed->interval, "Seconds between two looks")
      .in_range(0.1, 3600.0)
      .type("SECONDS")
      .shows_default();
  options
      ->add("--times", &printed->times,
            "Print so many looks, without the screen (default: the screen; 1 when not on a terminal)")
      .type("N")
      .excludes("--once");
  options->add("--rows", &command->rows, "Rows shown (default: 20; of the screen all)").in_range(1U, 100000U).type("N");
  options
      ->add("--group-by", &printed->by,
            "The entry of a row: stack, line, function, library, thread, device, cause or mark")
      .one_of({"stack", "line", "function", "library", "thread", "device", "cause", "mark"})
      .type("BY")
      .shows_default();
  options->add("--format", &command->format, "text, or json: each look as one line (culprit.top/1)")
      .one_of({"text", "json"})
      .type("FORMAT")
      .shows_default();
  return [command] { return run_top(*command); };
}

}  // namespace culprit::report
