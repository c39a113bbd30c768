#include "report/symbol_cache.h"

#include <utility>

namespace culprit {

void SymbolCache::look_up(std::vector<ModuleSymbols>& modules) {
  std::vector<ModuleSymbols> unknown;
  for (const ModuleSymbols& module : modules) {
    const Known& known = known_[{module.path, module.build_id}];
    ModuleSymbols question;
    question.path = module.path;
    question.build_id = module.build_id;
    // Few, and rare: a running process has no variables to ask about.
    question.data = module.data;
    for (std::uint64_t address : module.addresses) {
      if (known.locations.count(address) == 0) question.addresses.push_back(address);
    }
    if (!question.addresses.empty() || !question.data.empty()) unknown.push_back(std::move(question));
  }
  look_up_symbols(unknown, options_);
  for (ModuleSymbols& answer : unknown) {
    Known& known = known_[{answer.path, answer.build_id}];
    for (std::size_t i = 0; i < answer.addresses.size() && i < answer.locations.size(); ++i)
      known.locations[answer.addresses[i]] = std::move(answer.locations[i]);
    known.about = std::move(answer);
  }
  for (ModuleSymbols& module : modules) {
    const Known& known = known_[{module.path, module.build_id}];
    module.state = known.about.state;
    module.has_debug_info = known.about.has_debug_info;
    module.own_unwinder = known.about.own_unwinder;
    module.variables = known.about.variables;
    module.variable_of = known.about.variable_of;
    module.variable_of.resize(module.data.size(), ModuleSymbols::kNoVariable);
    for (std::uint64_t address : module.addresses) {
      const auto at = known.locations.find(address);
      module.locations.push_back(at == known.locations.end() ? std::vector<CodeLocation>() : at->second);
    }
  }
}

}  // namespace culprit
