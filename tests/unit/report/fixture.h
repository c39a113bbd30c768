// Shared by the tests of report/: made-up symbols, and records with the usual values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/judge/load_report.h"
#include "report/model/report.h"
#include "tests/support/dump_builder.h"

namespace culprit::test {

using namespace culprit::report;

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
  // A variable in the module's data.
  void add_variable(const std::string& module, std::uint64_t begin, std::uint64_t bytes, const std::string& name) {
    variables_[module].push_back({begin, begin + bytes, name});
  }
  // A variable of a function at this offset from the CFA of its frame.
  void add_local(const std::string& module, std::int64_t offset, const PointerPathName& name) {
    locals_[{module, offset}] = name;
  }
  void set_state(const std::string& module, ModuleState state) { states_[module] = state; }
  void set_own_unwinder(const std::string& module) { own_unwinders_.insert(module); }

  SymbolLookup lookup() const {
    return [this](std::vector<ModuleSymbols>& modules) {
      for (ModuleSymbols& module : modules) {
        const auto state = states_.find(module.path);
        module.own_unwinder = own_unwinders_.count(module.path) != 0;
        module.state = state == states_.end() ? ModuleState::kFound : state->second;
        for (std::uint64_t address : module.addresses) {
          const auto known = locations_.find({module.path, address});
          module.locations.push_back(known == locations_.end() ? std::vector<CodeLocation>() : known->second);
          if (known != locations_.end()) module.has_debug_info |= !known->second.front().file.empty();
        }
        answer_data(&module);
        answer_paths(&module);
      }
    };
  }

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
  };

  void answer_data(ModuleSymbols* module) const {
    const auto known = variables_.find(module->path);
    if (known != variables_.end()) {
      for (const Range& range : known->second) module->variables.push_back({range.name, range.begin});
    }
    for (std::uint64_t address : module->data) {
      module->variable_of.push_back(ModuleSymbols::kNoVariable);
      for (std::size_t i = 0; i < module->variables.size(); ++i) {
        const Range& range = known->second[i];
        if (address >= range.begin && address < range.end) module->variable_of.back() = static_cast<std::uint32_t>(i);
      }
    }
  }

  void answer_paths(ModuleSymbols* module) const {
    for (const PointerPath& path : module->paths) {
      module->path_names.emplace_back();
      if (!path.frame) continue;
      const auto known = locals_.find({module->path, path.frame->offset});
      if (known != locals_.end()) module->path_names.back() = known->second;
    }
  }

  std::map<std::pair<std::string, std::int64_t>, PointerPathName> locals_;
  std::map<std::pair<std::string, std::uint64_t>, std::vector<CodeLocation>> locations_;
  std::map<std::string, std::vector<Range>> variables_;
  std::map<std::string, ModuleState> states_;
  std::set<std::string> own_unwinders_;
};

inline culprit::format::AllocationRecord live_allocation(culprit::format::Ref stack, std::uint64_t bytes,
                                                         culprit::format::Kind kind = culprit::format::Kind::kDevice) {
  culprit::format::AllocationRecord record = {};
  record.state = 1 << culprit::format::kStateBits | static_cast<std::uint32_t>(culprit::format::AllocationState::kLive);
  record.stack = stack;
  record.bytes = bytes;
  record.kind = kind;
  record.handle = 0x7f0000000000 + bytes;
  return record;
}

inline Report report_of(DumpBuilder& builder, const FakeSymbols& symbols, LoadOptions options = {}) {
  const Dump dump = Dump::from_bytes(builder.bytes().data(), builder.bytes().size(), "culprit.app.4242.dump");
  options.lookup = symbols.lookup();
  return load_report(dump, options);
}

// A dump of a program "app" whose functions are at 0x1000, 0x2000, ...
struct Program {
  DumpBuilder dump;
  FakeSymbols symbols;
  std::uint32_t module = dump.add_module("/bin/app", {}, culprit::format::kModuleExecutable);

  // A stack of functions of the program, innermost first.
  culprit::format::Ref stack(const std::vector<std::string>& functions, unsigned line = 10) {
    std::vector<std::uint64_t> frames;
    for (const std::string& function : functions) frames.push_back(frame("/bin/app", module, function, line));
    return dump.add_stack(frames);
  }
  std::uint64_t frame(const std::string& path, std::uint32_t index, const std::string& function, unsigned line) {
    next_ += 0x1000;
    symbols.add(path, next_, function, line != 0 ? "/src/app.cu" : "", line);
    return DumpBuilder::frame(index, next_);
  }
  Report report(const JudgeOptions& judge = {}) {
    LoadOptions options;
    options.judge = judge;
    return report_of(dump, symbols, options);
  }

 private:
  std::uint64_t next_ = 0;
};

}  // namespace culprit::test
