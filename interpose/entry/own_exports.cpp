#include "interpose/entry/own_exports.h"

#include <atomic>

#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"
#include "interpose/loader/loader_modules.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD OwnExports exports;
CULPRIT_AT_LOAD std::atomic<bool> described, learned;

}  // namespace

CULPRIT_LOADING const ElfModule& own_symbols() {
  if (described.load(std::memory_order_acquire)) return exports.module;
  struct dl_phdr_info info;
  ElfModule module;
  if (find_module(reinterpret_cast<std::uint64_t>(__ehdr_start), &info) && describe_module(info, &module)) {
    exports.module = module;
    described.store(true, std::memory_order_release);
  }
  return exports.module;
}

CULPRIT_LOADING const OwnExports& own_exports() {
  if (learned.load(std::memory_order_acquire)) return exports;
  if (own_symbols().symbols == nullptr) return exports;
  const HashedSymbols listed = hashed_symbols_of(exports.module);
  const std::uint32_t count = listed.end - listed.first;
  exports.first = listed.first;
  exports.count = count < OwnExports::kMost ? count : OwnExports::kMost;
  for (std::uint32_t i = 0; i < exports.count; ++i) {
    const ElfW(Sym)& symbol = exports.module.symbols[exports.first + i];
    const bool is_function = ELF64_ST_TYPE(symbol.st_info) == STT_FUNC;
    exports.offsets[i] = is_function ? static_cast<std::uint32_t>(symbol.st_value) : 0;
  }
  learned.store(true, std::memory_order_release);
  return exports;
}

}  // namespace culprit
