#include "report/symbols/symbolizer.h"

#include <fcntl.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "report/base/log.h"
#include "report/base/parallel.h"
#include "report/base/words.h"
#include "report/symbols/data_symbols.h"
#include "report/symbols/module_symbols.h"
#include "report/symbols/own_unwinder.h"

namespace culprit::report {
namespace {

// Tells which file a module's symbols come from.
void tell(const ModuleSymbols& module, const std::string& path, const ModuleFile* file) {
  if (!log::shows(log::Level::kVerbose)) return;
  const std::string wanted = hex_bytes(module.build_id.data(), module.build_id.size());
  const std::string found = file != nullptr ? file->build_id() : "";
  const auto id = [](const std::string& hex) { return hex.empty() ? "no build ID" : "build ID " + hex; };
  const std::string begin = "symbols of " + path + ": ";
  switch (module.state) {
    case ModuleState::kFound:
      return log::debug(begin + id(found) + ", " +
                        (file->has_debug_info() ? "debug information in " + file->debug_file()
                                                : std::string("debug information missing")));
    case ModuleState::kNoFile:
      return log::debug(begin + "no such file, " + id(wanted) + " was recorded");
    case ModuleState::kChanged:
      return log::debug(begin + id(found) + ", not used because " + id(wanted) + " was recorded");
    case ModuleState::kUnreadable:
      return log::debug(begin + "cannot be read");
  }
}

void look_up_module(ModuleSymbols& module, const SymbolOptions& options) {
  module.locations.assign(module.addresses.size(), {});
  module.variable_of.assign(module.data.size(), ModuleSymbols::kNoVariable);
  if (module.path.empty() || module.path[0] != '/') return;
  const std::string path = options.sysroot + module.path;
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return tell(module, path, nullptr);
  if (options.progress) options.progress(path);
  module.state = ModuleState::kUnreadable;
  ModuleFile file;
  module.state = file.open(path, module.build_id, options);
  tell(module, path, &file);
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
  run_on_threads(static_cast<unsigned>(std::min<std::size_t>(wanted, queue.size())), work);
}

}  // namespace culprit::report
