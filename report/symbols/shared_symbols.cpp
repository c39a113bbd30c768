#include "report/symbols/shared_symbols.h"

#include <mutex>

namespace culprit::report {

void SharedSymbols::look_up(std::vector<ModuleSymbols>& modules) {
  {
    const std::shared_lock<std::shared_mutex> lock(mutex_);
    if (answer(modules)) return;
  }
  // Threads with the same question wait here and then find the answer in the cache.
  const std::unique_lock<std::shared_mutex> lock(mutex_);
  ask(modules);
  answer(modules);
}

// False when an answer is missing.
bool SharedSymbols::answer(std::vector<ModuleSymbols>& modules) const {
  for (ModuleSymbols& module : modules) {
    const auto at = known_.find({module.path, module.build_id});
    if (at == known_.end()) return false;
    const Known& known = at->second;
    module.state = known.state;
    module.has_debug_info = known.has_debug_info;
    module.own_unwinder = known.own_unwinder;
    module.locations.clear();
    module.locations.reserve(module.addresses.size());
    for (const std::uint64_t address : module.addresses) {
      const auto location = known.locations.find(address);
      if (location == known.locations.end()) return false;
      module.locations.push_back(location->second);
    }
    module.variables = known.variables;
    module.variable_of.clear();
    for (const std::uint64_t address : module.data) {
      const auto variable = known.variable_of.find(address);
      if (variable == known.variable_of.end()) return false;
      module.variable_of.push_back(variable->second);
    }
    module.path_names.clear();
    for (const PointerPath& path : module.paths) {
      const auto name = known.path_names.find(path);
      if (name == known.path_names.end()) return false;
      module.path_names.push_back(name->second);
    }
  }
  return true;
}

void SharedSymbols::ask(const std::vector<ModuleSymbols>& modules) {
  std::vector<ModuleSymbols> questions;
  for (const ModuleSymbols& module : modules) {
    const Known& known = known_[{module.path, module.build_id}];
    ModuleSymbols question;
    question.path = module.path;
    question.build_id = module.build_id;
    for (const std::uint64_t address : module.addresses) {
      if (known.locations.count(address) == 0) question.addresses.push_back(address);
    }
    for (const std::uint64_t address : module.data) {
      if (known.variable_of.count(address) == 0) question.data.push_back(address);
    }
    for (const PointerPath& path : module.paths) {
      if (known.path_names.count(path) == 0) question.paths.push_back(path);
    }
    if (!known.asked || !question.addresses.empty() || !question.data.empty() || !question.paths.empty())
      questions.push_back(std::move(question));
  }
  lookup_(questions);
  for (ModuleSymbols& answered : questions) {
    Known& known = known_[{answered.path, answered.build_id}];
    known.asked = true;
    known.state = answered.state;
    known.has_debug_info = known.has_debug_info || answered.has_debug_info;
    known.own_unwinder = answered.own_unwinder;
    answered.locations.resize(answered.addresses.size());
    for (std::size_t i = 0; i < answered.addresses.size(); ++i)
      known.locations.emplace(answered.addresses[i], std::move(answered.locations[i]));
    answered.path_names.resize(answered.paths.size());
    for (std::size_t i = 0; i < answered.paths.size(); ++i)
      known.path_names.emplace(std::move(answered.paths[i]), std::move(answered.path_names[i]));
    const auto first = static_cast<std::uint32_t>(known.variables.size());
    known.variables.insert(known.variables.end(), answered.variables.begin(), answered.variables.end());
    for (std::size_t i = 0; i < answered.data.size(); ++i) {
      const std::uint32_t number =
          i < answered.variable_of.size() ? answered.variable_of[i] : ModuleSymbols::kNoVariable;
      known.variable_of.emplace(answered.data[i], number == ModuleSymbols::kNoVariable ? number : first + number);
    }
  }
}

}  // namespace culprit::report
