#include "report/cuda/cuda_names.h"

#include <algorithm>
#include <iterator>

namespace culprit::report {
namespace {

constexpr std::string_view kRuntimeApiNames[] = {
#include "report/cuda/runtime_api_names.inc"
};

struct ResultName {
  int code;
  std::string_view name;
};
constexpr ResultName kResultNames[] = {
#include "report/cuda/cuda_result_names.inc"
};

// The rows of interpose/driver/hooks.def.
constexpr std::string_view kHookedNames[] = {
#include "hooked_names.inc"
};

bool strip_suffix(std::string_view* name, std::string_view suffix) {
  if (name->size() <= suffix.size() || name->substr(name->size() - suffix.size()) != suffix) return false;
  name->remove_suffix(suffix.size());
  return true;
}

bool strip_version(std::string_view* name) {
  std::size_t end = name->size();
  while (end > 0 && (*name)[end - 1] >= '0' && (*name)[end - 1] <= '9') --end;
  if (end == name->size() || end < 3 || name->substr(end - 2, 2) != "_v") return false;
  *name = name->substr(0, end - 2);
  return true;
}

std::string_view base_name(std::string_view symbol) {
  symbol = symbol.substr(0, symbol.find('<'));
  while (strip_suffix(&symbol, "_ptsz") || strip_suffix(&symbol, "_ptds") || strip_version(&symbol)) {
  }
  return symbol;
}

}  // namespace

std::string cuda_result_name(int code) {
  const auto* found = std::lower_bound(std::begin(kResultNames), std::end(kResultNames), code,
                                       [](const ResultName& entry, int value) { return entry.code < value; });
  if (found != std::end(kResultNames) && found->code == code) return std::string(found->name);
  return "CUresult " + std::to_string(code);
}

int cuda_result_code(std::string_view name) {
  for (const ResultName& entry : kResultNames) {
    if (entry.name == name) return entry.code;
  }
  return -1;
}

bool is_runtime_api(std::string_view symbol) {
  if (symbol.substr(0, 4) != "cuda") return false;
  return std::binary_search(std::begin(kRuntimeApiNames), std::end(kRuntimeApiNames), base_name(symbol));
}

std::string source_api_name(std::string_view symbol) { return std::string(base_name(symbol)); }

bool is_hooked_function(std::string_view name) {
  return std::any_of(std::begin(kHookedNames), std::end(kHookedNames),
                     [&](std::string_view hooked) { return hooked == name || base_name(hooked) == name; });
}

}  // namespace culprit::report
