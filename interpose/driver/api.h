// One number for each row of hooks.def.
#pragma once

#include <cstdint>

namespace culprit {

enum class Api : std::uint16_t {
#define HOOK_MAKE(symbol, ...) symbol,
#define HOOK_END(symbol, ...) symbol,
#define HOOK_CUSTOM(symbol, ...) symbol,
#define HOOK_CHECK(symbol, ...) symbol,
#include "interpose/driver/hooks.def"
  kCount
};

constexpr int kApiCount = static_cast<int>(Api::kCount);

// The ELF symbol of a row, e.g. "cuMemAlloc_v2".
const char* api_name(Api api);

// gnu_hash_of() of the symbol, computed at compile time.
std::uint32_t api_hash(Api api);

}  // namespace culprit
