// culprit tensors DUMP...: which variables keep the tensors and arrays inside the caches of frameworks, from the view
// beside a dump. Symbols are not needed.
#include <unistd.h>

#include <cstddef>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "report/base/exit_codes.h"
#include "report/base/log.h"
#include "report/base/terminal.h"
#include "report/commands/commands.h"
#include "report/judge/python_caches.h"
#include "report/load/python_view.h"
#include "report/render/json/head_json.h"
#include "report/render/json/json.h"
#include "report/render/text/render_keepers.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShown = 20;

struct TensorsCommand {
  std::vector<std::string> dumps;
  std::string format = "text";
  bool all = false;
};

Json json_of(const std::string& dump, const std::vector<CacheInside>& caches) {
  Json list = Json::array();
  for (const CacheInside& inside : caches) {
    Json one = inside_json(inside);
    one["pool"] = inside.pool;
    list.push_back(std::move(one));
  }
  return {{"dump", dump}, {"caches", std::move(list)}};
}

// The caches of a dump: at the end or at the snapshot, then those of the last moment at which memory ran out.
std::vector<CacheInside> caches_of(const PythonView& view) {
  std::vector<CacheInside> caches = look_inside_view(view);
  for (CacheInside& inside : look_inside_ran_out(view)) caches.push_back(std::move(inside));
  return caches;
}

int run_tensors(const TensorsCommand& command) {
  Json list = Json::array();
  bool unreadable = false;
  for (const std::string& dump : command.dumps) {
    std::string problem;
    const std::optional<PythonView> view = read_python_view(dump, &problem);
    if (!view) {
      log::error(!problem.empty() ? problem
                                  : dump + " has no view from inside a framework beside it (" + python_view_path(dump) +
                                        "): the program used no PyTorch and no CuPy, or it was killed");
      unreadable = true;
      continue;
    }
    const std::vector<CacheInside> caches = caches_of(*view);
    if (command.format == "json") {
      list.push_back(json_of(dump, caches));
      continue;
    }
    if (command.dumps.size() > 1) std::cout << dump << "\n";
    if (caches.empty()) std::cout << "no tensor or array is live\n";
    for (const CacheInside& inside : caches)
      render_keepers(inside, command.all ? inside.kept.size() : kShown, wants_colours(STDOUT_FILENO), std::cout);
  }
  if (command.format == "json") std::cout << Json({{"schema", "culprit.tensors/1"}, {"dumps", list}}).dump(2) << "\n";
  return unreadable ? kExitUnreadable : kExitFine;
}

}  // namespace

Action declare_tensors(OptionList* options) {
  const auto command = std::make_shared<TensorsCommand>();
  options->add("DUMP", &command->dumps, "Dumps of Python programs").is_required().type("");
  options->add("--format", &command->format, "text or json").one_of({"text", "json"}).shows_default();
  options->add("--all", &command->all, "All keepers, not only the largest");
  return [command] { return run_tensors(*command); };
}

}  // namespace culprit::report
