#include "report/symbols/data_symbols.h"

#include <gelf.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <tuple>

#include "interpose/format/dump_format.h"
#include "report/symbols/demangle.h"

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
  const int count = dwfl_module_getsymtab(file);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    const char* name = dwfl_module_getsym_info(file, i, &symbol, &address, &section, nullptr, nullptr);
    if (name == nullptr || name[0] == '\0' || section == SHN_UNDEF || symbol.st_size == 0) continue;
    const unsigned type = GELF_ST_TYPE(symbol.st_info);
    if (type == STT_TLS) address = symbol.st_value | format::kHolderThreadLocal;
    if (type != STT_OBJECT && type != STT_COMMON && type != STT_TLS) continue;
    const std::uint64_t end = address + symbol.st_size;
    if (end > address)
      symbols.push_back({address, end, name, GELF_ST_BIND(symbol.st_info) == STB_LOCAL, ::strnlen(name, kCompared)});
  }
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
