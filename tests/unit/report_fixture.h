// What the tests of report/ share: symbols that a test makes up, and records filled the usual way.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "report/load_report.h"
#include "tests/unit/dump_builder.h"

namespace culprit::test {

// Symbols by module and return address.
class FakeSymbols {
 public:
  void add(const std::string& module, std::uint64_t return_address, const std::string& function,
           const std::string& file = "", unsigned line = 0) {
    CodeLocation location;
    location.function = function;
    location.file = file;
    location.line = line;
    location.symbol_offset = 0x4c;
    add(module, return_address, location);
  }
  // Further locations at one address are the functions that the first was inlined into.
  void add(const std::string& module, std::uint64_t return_address, const CodeLocation& location) {
    locations_[{module, return_address - 1}].push_back(location);
  }
  void set_state(const std::string& module, ModuleState state) { states_[module] = state; }

  SymbolLookup lookup() const {
    return [this](std::vector<ModuleSymbols>& modules) {
      for (ModuleSymbols& module : modules) {
        const auto state = states_.find(module.path);
        module.state = state == states_.end() ? ModuleState::kFound : state->second;
        for (std::uint64_t address : module.addresses) {
          const auto known = locations_.find({module.path, address});
          module.locations.push_back(known == locations_.end() ? std::vector<CodeLocation>() : known->second);
          if (known != locations_.end()) module.has_debug_info |= !known->second.front().file.empty();
        }
      }
    };
  }

 private:
  std::map<std::pair<std::string, std::uint64_t>, std::vector<CodeLocation>> locations_;
  std::map<std::string, ModuleState> states_;
};

inline format::AllocationRecord live_allocation(format::Ref stack, std::uint64_t bytes,
                                                format::Kind kind = format::Kind::kDevice) {
  format::AllocationRecord record = {};
  record.state = 1 << format::kStateBits | static_cast<std::uint32_t>(format::AllocationState::kLive);
  record.stack = stack;
  record.bytes = bytes;
  record.kind = kind;
  record.handle = 0x7f0000000000 + bytes;
  return record;
}

inline Report report_of(DumpBuilder& builder, const FakeSymbols& symbols, ReportOptions options = {}) {
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "culprit.app.4242.dump");
  options.lookup = symbols.lookup();
  return load_report(dump, options);
}

}  // namespace culprit::test
