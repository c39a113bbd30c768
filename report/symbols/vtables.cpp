#include "report/symbols/vtables.h"

#include <algorithm>
#include <cstring>

#include "report/symbols/demangle.h"
#include "report/symbols/file_symbols.h"

namespace culprit::report {
namespace {

// Itanium C++ ABI, 5.1.4: the name of the virtual table of a type is this and the type's.
constexpr char kPrefix[] = "_ZTV";
constexpr std::size_t kLongestOfClass = 4096;

}  // namespace

Vtables::Vtables(Dwfl_Module* file) {
  for_each_symbol(file, [&](const FileSymbol& symbol) {
    const std::uint64_t end = symbol.address + symbol.entry.st_size;
    if (symbol.defined && std::strncmp(symbol.name, kPrefix, sizeof(kPrefix) - 1) == 0 && end > symbol.address)
      tables_.push_back({symbol.address, end, symbol.name});
  });
  std::sort(tables_.begin(), tables_.end(),
            [](const Table& left, const Table& right) { return left.begin < right.begin; });
}

Vtables::Place Vtables::at(std::uint64_t address) const {
  const auto behind = std::upper_bound(tables_.begin(), tables_.end(), address,
                                       [](std::uint64_t value, const Table& table) { return value < table.begin; });
  if (behind == tables_.begin() || address >= std::prev(behind)->end) return {};
  const Table& table = *std::prev(behind);
  const char* type = table.name + sizeof(kPrefix) - 1;
  std::string mangled(type, ::strnlen(type, kLongestOfClass));
  return {type_name(mangled), std::move(mangled), table.begin};
}

}  // namespace culprit::report
