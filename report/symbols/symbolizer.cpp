#include "report/symbols/symbolizer.h"

#include <fcntl.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "report/symbols/data_symbols.h"
#include "report/symbols/module_symbols.h"
#include "report/symbols/own_unwinder.h"

namespace culprit::report {
namespace {

void look_up_module(ModuleSymbols& module, const SymbolOptions& options) {
  module.locations.assign(module.addresses.size(), {});
  module.variable_of.assign(module.data.size(), ModuleSymbols::kNoVariable);
  if (module.path.empty() || module.path[0] != '/') return;
  const std::string path = options.sysroot + module.path;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return;
  if (options.progress) options.progress(path);
  module.state = ModuleState::kUnreadable;
  if (!S_ISREG(info.st_mode)) return;  // opening a device or a pipe could block or have side effects

  ModuleFile file;
  module.state = file.open(path, module.build_id, options);
  if (module.state != ModuleState::kFound) return;
  module.has_debug_info = file.has_debug_info();
  module.own_unwinder = file.defines_unwinder() || has_hidden_cxx_runtime(file.handle());
  for (std::size_t i = 0; i < module.addresses.size(); ++i) module.locations[i] = file.look_up(module.addresses[i]);
  if (!module.data.empty()) look_up_variables(file.handle(), &module);
}

}  // namespace

void look_up_symbols(std::vector<ModuleSymbols>& modules, const SymbolOptions& options) {
  elf_version(EV_CURRENT);
  // The modules with the most work first, so that no big one remains at the end.
  std::vector<ModuleSymbols*> queue;
  queue.reserve(modules.size());
  for (ModuleSymbols& module : modules) queue.push_back(&module);
  std::stable_sort(queue.begin(), queue.end(), [](const ModuleSymbols* left, const ModuleSymbols* right) {
    return left->addresses.size() > right->addresses.size();
  });

  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < queue.size(); i = next++) look_up_module(*queue[i], options);
  };
  const unsigned wanted = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (std::size_t i = 1; i < std::min<std::size_t>(wanted, queue.size()); ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace culprit::report
