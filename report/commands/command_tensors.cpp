// culprit tensors DUMP|PID...: which variables keep the tensors and arrays inside the caches of frameworks, from the
// view beside a dump or of a running process. Symbols are not needed.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/commands/commands.h"
#include "report/commands/tensors_source.h"
#include "report/render/json/tensors_json.h"
#include "report/render/text/render_keepers.h"

namespace culprit::report {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kShown = 20;

struct TensorsCommand {
  std::vector<std::string> sources;
  std::string since;
  std::string format = "text";
  double time_out = 10;
  double longest_stop = 0.05;
  bool all = false;
  bool addresses = false;
};

void show(const TensorsView& view, const TensorsView* before, const TensorsCommand& command) {
  if (command.sources.size() > 1) std::cout << view.name << "\n";
  if (view.caches.empty()) std::cout << "no tensor or array is live\n";
  for (const CacheInside& inside : view.caches) {
    const std::size_t most = command.all ? SIZE_MAX : kShown;
    const bool colours = wants_colours(STDOUT_FILENO);
    if (before == nullptr) {
      render_keepers(inside, most, colours, std::cout);
      continue;
    }
    const CacheInside* earlier = same_cache(before->caches, inside);
    render_keeper_growth(earlier != nullptr ? *earlier : CacheInside(), inside, before->name, most, colours, std::cout);
  }
}

int run_tensors(const TensorsCommand& command) try {
  const ProcessLimits limits = {milliseconds(static_cast<long>(std::ceil(command.time_out * 1000))),
                                std::chrono::microseconds(static_cast<long>(command.longest_stop * 1e6))};
  TensorsView before;
  if (!command.since.empty()) before = tensors_of(command.since, limits);
  const TensorsView* since = command.since.empty() ? nullptr : &before;
  Json list = Json::array();
  bool unreadable = false;
  for (const std::string& source : command.sources) {
    try {
      const TensorsView view = tensors_of(source, limits);
      if (command.format == "json") {
        list.push_back(
            tensors_json(view.name, view.caches, since == nullptr ? nullptr : &since->caches, command.addresses));
      } else {
        show(view, since, command);
      }
    } catch (const std::exception& error) {
      log::failure(error);
      unreadable = true;
    }
  }
  if (command.format == "json") std::cout << tensors_file_json(std::move(list)).dump(2) << "\n";
  return unreadable ? kExitUnreadable : kExitFine;
} catch (const std::exception& error) {
  log::failure(error);
  return kExitUnreadable;
}

}  // namespace

Action declare_tensors(OptionList* options) {
  const auto command = std::make_shared<TensorsCommand>();
  options
      ->add("DUMP|PID", &command->sources,
            "Dumps of Python programs, or running ones (attached for a moment where libculprit.so is not loaded)")
      .is_required()
      .type("");
  options
      ->add("--since", &command->since, "Show what grew, by keeper, since this earlier dump, or file of --format json")
      .type("FILE");
  options->add("--format", &command->format, "text or json").one_of({"text", "json"}).shows_default();
  options->add("--all", &command->all, "All keepers, not only the largest");
  options->add("--addresses", &command->addresses, "In JSON, also the addresses of each keeper's blocks of memory");
  options->add("--timeout", &command->time_out, "Give up on a process after this time in one step (10s)")
      .time()
      .type("TIME");
  options
      ->add("--longest-stop", &command->longest_stop,
            "Look at a process only if this stops its interpreter for no longer, as far as is known before (50ms)")
      .time()
      .type("TIME");
  return [command] { return run_tensors(*command); };
}

}  // namespace culprit::report
