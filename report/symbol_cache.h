// Symbols that were looked up once and are asked for again: a running process is read again and again.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "report/symbolizer.h"

namespace culprit {

// Not thread-safe.
class SymbolCache {
 public:
  explicit SymbolCache(const SymbolOptions& options) : options_(options) {}

  // Answers like look_up_symbols(). Only what is new is looked up.
  void look_up(std::vector<ModuleSymbols>& modules);

 private:
  struct Known {
    ModuleSymbols about;  // of the file as a whole
    std::unordered_map<std::uint64_t, std::vector<CodeLocation>> locations;
  };

  SymbolOptions options_;
  std::map<std::pair<std::string, std::vector<std::uint8_t>>, Known> known_;  // by path and build ID
};

}  // namespace culprit
