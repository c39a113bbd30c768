// culprit metrics: what processes hold, for Prometheus.
#include <chrono>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/file_error.h"
#include "report/base/log.h"
#include "report/base/output_file.h"
#include "report/commands/commands.h"
#include "report/dump/dump_error.h"
#include "report/metrics/exposition.h"
#include "report/metrics/fresh_text.h"
#include "report/metrics/listen_address.h"
#include "report/metrics/metrics_listener.h"
#include "report/metrics/observed_processes.h"

namespace culprit::report {
namespace {

struct MetricsCommand {
  std::vector<std::string> targets;
  std::string listen;
  std::string textfile;
  double every = 0;  // seconds; 0: once
  unsigned stacks = 20;
};

void write_textfile(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.stream() << text;
  file.commit();
}

// A disk that is full for a while ends the command only at the first time.
void write_textfiles(const MetricsCommand& command, const std::function<Exposition()>& make) {
  write_textfile(command.textfile, make().prometheus);
  while (command.every > 0) {
    std::this_thread::sleep_for(std::chrono::duration<double>(command.every));
    try {
      write_textfile(command.textfile, make().prometheus);
    } catch (const FileError& error) {
      log::warning(error.what());
    }
  }
}

int listen(const ListenAddress& address, const std::function<Exposition()>& make) {
  FreshText text;
  std::optional<MetricsListener> listener;
  try {
    listener.emplace(address, &text);
  } catch (const std::runtime_error& error) {
    log::error(error.what());
    return kExitUnreadable;
  }
  log::note("serves http://" + listener->address().text() + "/metrics");
  text.serve(make);
  return kExitFine;
}

int run_metrics(const MetricsCommand& command) try {
  SampleLimits limits;
  limits.stacks = command.stacks;
  ObservedProcesses processes(command.targets, limits, !command.listen.empty() || command.every > 0);
  processes.check_targets();
  const std::function<Exposition()> make = [&processes] { return exposition_of(processes.look()); };
  ListenAddress address;
  if (parse_listen_address(command.listen, &address)) return listen(address, make);
  if (!command.textfile.empty()) {
    write_textfiles(command, make);
    return kExitFine;
  }
  std::cout << make().prometheus << std::flush;
  return kExitFine;
} catch (const DumpError& error) {
  log::error(error.what());
  return kExitUnreadable;
} catch (const FileError& error) {
  log::error(error.what());
  return kExitUnreadable;
}

}  // namespace

Action declare_metrics(OptionList* options) {
  const auto command = std::make_shared<MetricsCommand>();
  options
      ->add("PID|DUMP", &command->targets,
            "Processes under culprit, or dumps; without them all processes of the machine that record")
      .type("");
  options
      ->add("--listen", &command->listen,
            "Serve the metrics at http://ADDRESS:PORT/metrics until a signal; a port alone is on 127.0.0.1")
      .type("ADDRESS:PORT")
      .checked_by([](const std::string& value) -> std::string {
        ListenAddress address;
        if (parse_listen_address(value, &address)) return "";
        return "\"" + value + "\" is neither a port nor ADDRESS:PORT, such as 9400, 127.0.0.1:9400 or [::1]:9400";
      });
  options->add("--textfile", &command->textfile, "Write the metrics to a file, which is complete at each moment")
      .type("PATH")
      .excludes("--listen");
  options->add("--every", &command->every, "Write the file again and again, after this time: 15s, 1m")
      .type("TIME")
      .time()
      .needs("--textfile");
  options->add("--stacks", &command->stacks, "Stacks of each process with a series of their own")
      .in_range(0U, 1000U)
      .type("N")
      .shows_default();
  return [command] { return run_metrics(*command); };
}

}  // namespace culprit::report
