#include "report/load/native_variables.h"

#include <charconv>
#include <cstddef>
#include <map>
#include <string_view>
#include <utility>

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

// Of hex digits, up to the first that is none.
std::vector<std::uint8_t> bytes_of(const std::string& digits) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    std::uint8_t byte = 0;
    const char* end = digits.data() + i + 2;
    if (std::from_chars(digits.data() + i, end, byte, 16).ptr != end) break;
    bytes.push_back(byte);
  }
  return bytes;
}

}  // namespace

void name_variables(std::vector<NativeVariable>* variables) {
  std::map<std::pair<std::string, std::string>, std::size_t> number;
  std::vector<ModuleSymbols> modules;
  for (NativeVariable& one : *variables) {
    one.name = variable_text("a variable", one.path);
    if (one.path.empty() || (modules.size() == kMostFiles && number.count({one.path, one.build_id}) == 0)) continue;
    const auto [at, added] = number.try_emplace({one.path, one.build_id}, modules.size());
    if (added) {
      modules.emplace_back().path = one.path;
      modules.back().build_id = bytes_of(one.build_id);
    }
    modules[at->second].data.push_back(one.address);
  }
  if (modules.empty()) return;
  SymbolOptions options;
  options.download_seconds = 0;
  look_up_symbols(modules, options);
  std::vector<std::size_t> next(modules.size());
  for (NativeVariable& one : *variables) {
    const auto at = number.find({one.path, one.build_id});
    if (at == number.end()) continue;
    const ModuleSymbols& module = modules[at->second];
    const std::size_t place = next[at->second]++;
    if (place >= module.variable_of.size() || module.variable_of[place] == ModuleSymbols::kNoVariable) continue;
    one.name = variable_text(module.variables[module.variable_of[place]].name, one.path);
  }
}

}  // namespace culprit::report
