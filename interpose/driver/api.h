// One number for each row of hooks.def.
#pragma once

#include <cstdint>

namespace culprit {

enum class Api : std::uint16_t {
#define HOOK_ANY(symbol, ...) symbol,
#include "interpose/driver/hooks.def"
  kCount
};

constexpr int kApiCount = static_cast<int>(Api::kCount);

// Functions that announce memory and are no rows, because the driver has none of them. Their numbers follow the rows'.
constexpr Api kNvtxRegions = static_cast<Api>(kApiCount);
constexpr Api kNvtxHeap = static_cast<Api>(kApiCount + 1);
constexpr Api kCulpritRegion = static_cast<Api>(kApiCount + 2);
constexpr int kNamedApiCount = kApiCount + 3;

// A column of HOOK_CUSTOM and HOOK_GROW rows.
enum HookFlags : std::uint8_t {
  kPlain = 0,
  // The generic hook records its failures. Custom rows that know the requested size (kAllocate) record failures
  // themselves; refused frees (kEnd) are ErrorRecords; of look-ups, initializations and launches only a want of memory
  // is recorded.
  kRecordFailure = 1,
  // Another context may be current to the calling thread afterwards. (Not the deprecated cuGLCtxCreate: it creates a
  // context on the device that the thread already uses.)
  kSwitchContext = 2,
  kAllocate = 4,  // takes memory of its own: CULPRIT_FAIL counts it as an allocation
  kLive = 8,      // changes in another way how much memory is live
  kEnd = 16,      // ends something, through an Ending
};

inline constexpr std::uint8_t kHookFlags[] = {
#define HOOK_ANY(...) kPlain,
#define HOOK_CUSTOM(symbol, parameters, arguments, flags) (flags),
#define HOOK_GROW(symbol, parameters, arguments, flags, what) (flags),
#define HOOK_SWITCH(...) kSwitchContext,
#include "interpose/driver/hooks.def"
};

constexpr bool records_failure(Api api) { return (kHookFlags[static_cast<int>(api)] & kRecordFailure) != 0; }
constexpr bool records_own_failures(Api api) { return (kHookFlags[static_cast<int>(api)] & (kAllocate | kEnd)) != 0; }
constexpr bool changes_live_memory(Api api) { return (kHookFlags[static_cast<int>(api)] & (kAllocate | kLive)) != 0; }
constexpr bool changes_context(Api api) { return (kHookFlags[static_cast<int>(api)] & kSwitchContext) != 0; }

// The ELF symbol of a row, e.g. "cuMemAlloc_v2", or the name of a function that announces memory.
const char* api_name(Api api);

// gnu_hash_of() of the symbol, computed at compile time.
std::uint32_t api_hash(Api api);

}  // namespace culprit
