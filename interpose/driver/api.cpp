#include "interpose/driver/api.h"

#include "interpose/base/elf_symbols.h"

namespace culprit {

const char* api_name(Api api) {
  if (api == kNvtxRegions) return "nvtxMemRegionsRegister";
  if (api == kNvtxHeap) return "nvtxMemHeapRegister";
  if (api == kCulpritRegion) return "culprit_region_add";
  switch (api) {
#define HOOK_ANY(symbol, ...) \
  case Api::symbol:           \
    return #symbol;
#include "interpose/driver/hooks.def"
    case Api::kCount:
      break;
  }
  return "";
}

std::uint32_t api_hash(Api api) {
  static constexpr std::uint32_t kHashes[] = {
#define HOOK_ANY(symbol, ...) gnu_hash_of(#symbol),
#include "interpose/driver/hooks.def"
  };
  static_assert(sizeof(kHashes) / sizeof(kHashes[0]) == static_cast<std::size_t>(kApiCount));
  return kHashes[static_cast<int>(api)];
}

}  // namespace culprit
