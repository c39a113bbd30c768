// A cache of symbols: a thousand ranks of a job run one program, and `culprit top` reads one process many times.
#pragma once

#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "report/symbols/symbolizer.h"

namespace culprit::report {

// Answers from the cache, and asks `lookup` for the rest. Thread-safe if `lookup` is.
class SharedSymbols {
 public:
  explicit SharedSymbols(SymbolLookup lookup) : lookup_(std::move(lookup)) {}

  // Fills in the results for all modules, like look_up_symbols().
  void look_up(std::vector<ModuleSymbols>& modules);

 private:
  struct Known {
    bool asked = false;
    ModuleState state = ModuleState::kNoFile;
    bool has_debug_info = false;
    bool own_unwinder = false;
    std::unordered_map<std::uint64_t, std::vector<CodeLocation>> locations;
    std::vector<DataSymbol> variables;
    std::unordered_map<std::uint64_t, std::uint32_t> variable_of;
    std::map<PointerPath, PointerPathName> path_names;
  };
  using Key = std::pair<std::string, std::vector<std::uint8_t>>;  // path, build ID

  bool answer(std::vector<ModuleSymbols>& modules) const;
  void ask(const std::vector<ModuleSymbols>& modules);

  SymbolLookup lookup_;
  mutable std::shared_mutex mutex_;
  std::map<Key, Known> known_;
};

}  // namespace culprit::report
