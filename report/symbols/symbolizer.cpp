#include "report/symbols/symbolizer.h"

#include <fcntl.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include "report/base/log.h"
#include "report/base/parallel.h"
#include "report/base/words.h"
#include "report/symbols/data_symbols.h"
#include "report/symbols/debug_downloads.h"
#include "report/symbols/module_symbols.h"
#include "report/symbols/own_unwinder.h"
#include "report/symbols/symbol_cache.h"

namespace culprit::report {
namespace {

// Tells which file a module's symbols come from.
// `found`: the file's build ID.
void tell(const ModuleSymbols& module, const std::string& path, const ModuleFile* file, const std::string& found = "") {
  if (!log::shows(log::Level::kVerbose)) return;
  const std::string wanted = hex_bytes(module.build_id.data(), module.build_id.size());
  const auto id = [](const std::string& hex) { return hex.empty() ? "no build ID" : "build ID " + hex; };
  const std::string begin = "symbols of " + path + ": ";
  switch (module.state) {
    case ModuleState::kFound:
      return log::debug(begin + id(found) + ", " +
                        (file != nullptr && file->has_debug_info() ? "debug information in " + file->debug_file()
                                                                   : std::string("debug information missing")));
    case ModuleState::kNoFile:
      return log::debug(begin + "no such file, " + id(wanted) + " was recorded");
    case ModuleState::kChanged:
      return log::debug(begin + id(found) + ", not used because " + id(wanted) + " was recorded");
    case ModuleState::kUnreadable:
      return log::debug(begin + "cannot be read");
  }
}

std::optional<FileMark> mark_of_debug_file(const ModuleFile& file, const std::string& path) {
  const std::string debug_file = file.debug_file();
  return debug_file.empty() || debug_file == path ? std::nullopt : mark_of(debug_file);
}

// Of a file that is there. Returns its build ID in hex digits.
std::string look_up_module(ModuleSymbols& module, const SymbolOptions& options) {
  module.locations.assign(module.addresses.size(), {});
  module.variable_of.assign(module.data.size(), ModuleSymbols::kNoVariable);
  module.path_names.assign(module.paths.size(), {});
  const std::string path = options.sysroot + module.path;
  if (options.progress) options.progress("reading symbols of " + path);
  module.state = ModuleState::kUnreadable;
  ModuleFile file;
  const std::optional<FileMark> mark = mark_of(path);
  module.state = file.open(path, module.build_id, options);
  const std::string build_id = file.build_id();
  const SymbolCache cache(module.state == ModuleState::kFound && mark ? options.cache_folder : "");
  if (mark && cache.answer(
                  build_id, *mark, [&] { return file.may_have_debug_file(); }, &module)) {
    log::debug("symbols of " + path + ": build ID " + build_id + ", known from an earlier report");
    return build_id;
  }
  if (module.state == ModuleState::kFound) file.read_tables();
  tell(module, path, &file, build_id);
  if (module.state != ModuleState::kFound) return build_id;
  module.has_debug_info = file.has_debug_info();
  module.own_unwinder = file.defines_unwinder() || has_hidden_cxx_runtime(file.handle());
  for (std::size_t i = 0; i < module.addresses.size(); ++i) module.locations[i] = file.look_up(module.addresses[i]);
  if (!module.data.empty()) look_up_variables(file.handle(), &module);
  if (!module.paths.empty()) module.path_names = file.names_of(module.paths);
  if (mark && file.is_repeatable()) cache.keep({build_id, *mark, mark_of_debug_file(file, path)}, module);
  return build_id;
}

// The modules of one file, which a program may load again and again, and a dump may name by many paths.
struct Sharers {
  std::vector<ModuleSymbols*> modules;
  std::size_t addresses = 0;
};

// Gives `to` its part of the answer for all sharers, which begins with these addresses, data and paths.
void take_part(const ModuleSymbols& all, std::size_t address, std::size_t data, std::size_t path, ModuleSymbols* to) {
  to->state = all.state;
  to->has_debug_info = all.has_debug_info;
  to->own_unwinder = all.own_unwinder;
  const auto first = all.locations.begin() + static_cast<std::ptrdiff_t>(address);
  to->locations.assign(first, first + static_cast<std::ptrdiff_t>(to->addresses.size()));
  const auto first_path = all.path_names.begin() + static_cast<std::ptrdiff_t>(path);
  to->path_names.assign(first_path, first_path + static_cast<std::ptrdiff_t>(to->paths.size()));
  std::unordered_map<std::uint32_t, std::uint32_t> numbers;
  to->variable_of.assign(to->data.size(), ModuleSymbols::kNoVariable);
  for (std::size_t i = 0; i < to->data.size(); ++i) {
    const std::uint32_t number = all.variable_of[data + i];
    if (number == ModuleSymbols::kNoVariable) continue;
    const auto [at, added] = numbers.try_emplace(number, static_cast<std::uint32_t>(to->variables.size()));
    if (added) to->variables.push_back(all.variables[number]);
    to->variable_of[i] = at->second;
  }
}

// One question for all of them.
void look_up_together(const std::vector<ModuleSymbols*>& modules, const SymbolOptions& options, std::string* build_id) {
  if (modules.size() == 1) {
    *build_id = look_up_module(*modules.front(), options);
    return;
  }
  ModuleSymbols all;
  all.path = modules.front()->path;
  all.build_id = modules.front()->build_id;
  for (const ModuleSymbols* one : modules) {
    all.addresses.insert(all.addresses.end(), one->addresses.begin(), one->addresses.end());
    all.data.insert(all.data.end(), one->data.begin(), one->data.end());
    all.paths.insert(all.paths.end(), one->paths.begin(), one->paths.end());
  }
  *build_id = look_up_module(all, options);
  std::size_t address = 0;
  std::size_t data = 0;
  std::size_t path = 0;
  for (ModuleSymbols* one : modules) {
    take_part(all, address, data, path, one);
    address += one->addresses.size();
    data += one->data.size();
    path += one->paths.size();
  }
}

// The file is read once for each build ID that it may have: a recorded one may be the beginning of the file's.
void look_up_file(const Sharers& sharers, const SymbolOptions& options) {
  std::vector<ModuleSymbols*> left = sharers.modules;
  while (!left.empty()) {
    const ModuleSymbols& first = *left.front();
    const auto others = std::stable_partition(
        left.begin(), left.end(), [&](const ModuleSymbols* one) { return one->build_id == first.build_id; });
    std::string build_id;
    look_up_together({left.begin(), others}, options, &build_id);
    std::vector<ModuleSymbols*> next;
    for (auto at = others; at != left.end(); ++at) {
      const std::string wanted = hex_bytes((*at)->build_id.data(), (*at)->build_id.size());
      if (first.state == ModuleState::kUnreadable) {
        (*at)->state = ModuleState::kUnreadable;
      } else if (build_id.compare(0, wanted.size(), wanted) != 0) {
        (*at)->state = ModuleState::kChanged;
        tell(**at, options.sysroot + (*at)->path, nullptr, build_id);
      } else {
        next.push_back(*at);
      }
    }
    left = std::move(next);
  }
}

// Whether a path of a dump leads above the sysroot, by its "..".
bool leaves_sysroot(const std::string& path) {
  const std::filesystem::path below = std::filesystem::path(path).relative_path().lexically_normal();
  return !below.empty() && *below.begin() == "..";
}

// The files of the modules; those without a file are answered here.
std::vector<Sharers> files_of(std::vector<ModuleSymbols>* modules, const SymbolOptions& options) {
  std::vector<Sharers> files;
  std::map<std::pair<dev_t, ino_t>, std::size_t> known;
  for (ModuleSymbols& module : *modules) {
    module.locations.assign(module.addresses.size(), {});
    module.variable_of.assign(module.data.size(), ModuleSymbols::kNoVariable);
    module.path_names.assign(module.paths.size(), {});
    if (module.path.empty() || module.path[0] != '/') continue;
    const std::string path = options.sysroot + module.path;
    struct stat info = {};
    if ((!options.sysroot.empty() && leaves_sysroot(module.path)) || ::stat(path.c_str(), &info) != 0) {
      tell(module, path, nullptr);
      continue;
    }
    const auto [at, added] = known.try_emplace({info.st_dev, info.st_ino}, files.size());
    if (added) files.emplace_back();
    files[at->second].modules.push_back(&module);
    files[at->second].addresses += module.addresses.size();
  }
  return files;
}

}  // namespace

void look_up_symbols(std::vector<ModuleSymbols>& modules, const SymbolOptions& options) {
  elf_version(EV_CURRENT);
  // The files with the most work first, so that no big one remains at the end.
  std::vector<Sharers> queue = files_of(&modules, options);
  std::stable_sort(queue.begin(), queue.end(),
                   [](const Sharers& left, const Sharers& right) { return left.addresses > right.addresses; });

  const DebugDownloads downloads(options.download_seconds);
  std::atomic<std::size_t> next{0};
  auto work = [&] {
    for (std::size_t i = next++; i < queue.size(); i = next++) look_up_file(queue[i], options);
  };
  const unsigned wanted = options.threads != 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
  run_on_threads(static_cast<unsigned>(std::min<std::size_t>(wanted, queue.size())), work);
  if (!options.cache_folder.empty()) SymbolCache(options.cache_folder).shrink();
}

}  // namespace culprit::report
