#include "report/load/native_variables.h"

#include <cstddef>
#include <map>
#include <string_view>

#include "report/model/frames.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostFiles = 64;

std::string variable_text(std::string_view variable, const std::string& path) {
  std::string text(variable);
  text += " of ";
  text += base_name(path);
  return text;
}

}  // namespace

void name_variables(std::vector<NativeVariable>* variables) {
  std::map<std::string, std::size_t> number;
  std::vector<ModuleSymbols> modules;
  for (NativeVariable& one : *variables) {
    one.name = variable_text("a variable", one.path);
    if (one.path.empty() || (modules.size() == kMostFiles && number.count(one.path) == 0)) continue;
    const auto [at, added] = number.try_emplace(one.path, modules.size());
    if (added) modules.emplace_back().path = one.path;
    modules[at->second].data.push_back(one.address);
  }
  if (modules.empty()) return;
  SymbolOptions options;
  options.download_seconds = 0;
  look_up_symbols(modules, options);
  std::vector<std::size_t> next(modules.size());
  for (NativeVariable& one : *variables) {
    const auto at = number.find(one.path);
    if (at == number.end()) continue;
    const ModuleSymbols& module = modules[at->second];
    const std::size_t place = next[at->second]++;
    if (place >= module.variable_of.size() || module.variable_of[place] == ModuleSymbols::kNoVariable) continue;
    one.name = variable_text(module.variables[module.variable_of[place]].name, one.path);
  }
}

}  // namespace culprit::report
