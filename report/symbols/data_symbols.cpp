#include "report/symbols/data_symbols.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

#include "interpose/format/dump_format.h"
#include "report/symbols/demangle.h"
#include "report/symbols/file_symbols.h"

namespace culprit::report {
namespace {

struct Symbol {
  std::uint64_t begin;
  std::uint64_t end;
  const char* name;  // belongs to libdw
  bool local;
  std::size_t length;  // of the name, at most kCompared
};

// Symbols at one address are compared by so much of their names.
constexpr std::size_t kCompared = 4096;

std::vector<Symbol> data_symbols(Dwfl_Module* file) {
  std::vector<Symbol> symbols;
  for_each_symbol(file, [&](const FileSymbol& one) {
    if (!one.defined) return;
    const unsigned type = GELF_ST_TYPE(one.entry.st_info);
    if (type != STT_OBJECT && type != STT_COMMON && type != STT_TLS) return;
    const std::uint64_t begin = type == STT_TLS ? one.entry.st_value | format::kHolderThreadLocal : one.address;
    const std::uint64_t end = begin + one.entry.st_size;
    const bool local = GELF_ST_BIND(one.entry.st_info) == STB_LOCAL;
    if (end > begin) symbols.push_back({begin, end, one.name, local, ::strnlen(one.name, kCompared)});
  });
  std::sort(symbols.begin(), symbols.end(), [](const Symbol& left, const Symbol& right) {
    if (left.begin != right.begin) return left.begin < right.begin;
    // A copy relocation has the name of the library's variable; an alias may be longer, so the shorter name is
    // preferred.
    return std::tie(left.local, left.length) != std::tie(right.local, right.length)
               ? std::tie(left.local, left.length) < std::tie(right.local, right.length)
               : std::memcmp(left.name, right.name, left.length) < 0;
  });
  symbols.erase(std::unique(symbols.begin(), symbols.end(),
                            [](const Symbol& left, const Symbol& right) { return left.begin == right.begin; }),
                symbols.end());
  return symbols;
}

}  // namespace

void look_up_variables(Dwfl_Module* file, ModuleSymbols* module) {
  const std::vector<Symbol> symbols = data_symbols(file);
  // Sorted by address, so that one walk over the symbols answers a million questions.
  std::vector<std::size_t> order(module->data.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t left, std::size_t right) { return module->data[left] < module->data[right]; });
  std::map<const Symbol*, std::uint32_t> known;
  std::size_t next = 0;  // the first symbol that begins after the address
  for (std::size_t question : order) {
    const std::uint64_t address = module->data[question];
    while (next < symbols.size() && symbols[next].begin <= address) ++next;
    if (next == 0 || address >= symbols[next - 1].end) continue;
    const Symbol& symbol = symbols[next - 1];
    const auto [at, added] = known.emplace(&symbol, static_cast<std::uint32_t>(module->variables.size()));
    if (added) module->variables.push_back({variable_name(symbol.name), symbol.begin, symbol.end - symbol.begin});
    module->variable_of[question] = at->second;
  }
}

}  // namespace culprit::report
