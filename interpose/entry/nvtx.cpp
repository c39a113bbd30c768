// NVTX ranges, read through NVTX's own injection hook and without CUPTI.
//
// NVTX is header-only: each module that uses it searches, at its first call, for a tool that receives its table of
// functions:
//
//   1. InitializeInjectionNvtx2 in the library that NVTX_INJECTION64_PATH names. `culprit run` sets it to this library
//      unless a profiler has set it, or another variable that loads a profiler;
//   2. the pointer InitializeInjectionNvtx2_fnptr. Shared libraries find ours through the loader unless a profiler's is
//      found first.
//
// The functions of an extension have a table and a search of their own (InitializeInjectionNvtxExtension). The payload
// extension matters because it can end a range that a core function pushed: NCCL pushes with nvtxDomainRangePushEx, and
// ends a range that got a payload meanwhile with nvtxRangePopPayload. The memory extension: nvtx_memory.cpp.
//
// A module has one tool, and we never replace a profiler. Only pushed ranges are read; they belong to one thread.
#include <cstdint>
#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/control/marks.h"
#include "interpose/entry/nvtx_extension.h"
#include "interpose/entry/nvtx_text.h"
#include "interpose/process/process.h"
#include "interpose/system/own_memory.h"

namespace culprit {
namespace {

// The part of nvtx3/nvtxDetail/nvtxTypes.h that a tool needs: an ABI that NVTX keeps for all of version 3. Declared
// here so that nothing but cuda.h is needed to build.
using Function = void (*)();
struct ExportTableCallbacks {
  std::size_t struct_size;
  int (*get_module_function_table)(int module, Function*** table, unsigned* size);
};
using GetExportTable = const void* (*)(std::uint32_t id);
constexpr std::uint32_t kTableCallbacks = 1;
constexpr int kModuleCore = 1;
constexpr int kModuleCore2 = 5;
enum Core : unsigned { kRangePushEx = 8, kRangePushA = 9, kRangePushW = 10, kRangePop = 11 };
enum Core2 : unsigned {
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
};
// nvtx3/nvToolsExtPayload.h, which NVTX keeps for all compatibility IDs 1.x.
constexpr std::uint16_t kPayloadModule = 2;
enum Payload : unsigned { kRangePushPayload = 3, kRangePopPayload = 4 };
struct EventAttributes {
  std::uint16_t version;
  std::uint16_t size;
  std::uint32_t category;
  std::int32_t color_type;
  std::uint32_t color;
  std::int32_t payload_type;
  std::int32_t reserved0;
  std::uint64_t payload;
  std::int32_t message_type;  // 0 unknown, 1 char*, 2 wchar_t*, 3 registered string
  const void* message;
};
static_assert(offsetof(EventAttributes, message) == 40);

// Registered strings live as long as the process: programs register each name once.
class StringArena {
 public:
  // A copy of the text; nullptr when the arena is full.
  const char* add(const char* text, std::uint32_t length) {
    return on_own_stack([&] { return add_here(text, length); });
  }

 private:
  const char* add_here(const char* text, std::uint32_t length) {
    // In a fork child the lock may be held for ever by a thread of the parent.
    if (!lock_.try_lock_for(kLongestWaitMs)) return nullptr;
    const char* copy = add_locked(text, length);
    lock_.unlock();
    return copy;
  }
  const char* add_locked(const char* text, std::uint32_t length) {
    if (memory_ == nullptr) {
      int error = 0;
      memory_ = static_cast<char*>(map_private(kBytes, &error));
    }
    if (memory_ == nullptr || used_ + length + 1 > kBytes) return nullptr;
    char* copy = memory_ + used_;
    std::memcpy(copy, text, length);
    used_ += length + 1;
    return copy;
  }

  static constexpr std::uint32_t kBytes = 1 << 20;
  static constexpr std::uint32_t kLongestWaitMs = 100;
  SpinLock lock_;
  char* memory_;
  std::uint32_t used_;
};
StringArena strings;

constexpr char kNoName[] = "(unnamed)";

int push_text(const char* text, const void* domain) {
  if (text == nullptr) text = kNoName;
  return open_range(text, bounded_length(text), domain);
}

int push_wide(const wchar_t* text, const void* domain) {
  if (text == nullptr) return push_text(nullptr, domain);
  Narrow narrow(text);
  return open_range(narrow.text, narrow.length, domain);
}

int domain_push(const void* domain, const EventAttributes* attributes) {
  // Older headers have shorter attributes.
  if (attributes == nullptr || attributes->size < offsetof(EventAttributes, message) + sizeof(void*))
    return push_text(nullptr, domain);
  switch (attributes->message_type) {
    case 1:
    case 3:
      return push_text(static_cast<const char*>(attributes->message), domain);
    case 2:
      return push_wide(static_cast<const wchar_t*>(attributes->message), domain);
    default:
      return push_text(nullptr, domain);
  }
}

int push_ex(const EventAttributes* attributes) { return domain_push(nullptr, attributes); }
int push_a(const char* text) { return push_text(text, nullptr); }
int push_w(const wchar_t* text) { return push_wide(text, nullptr); }
int pop() { return close_range(nullptr); }
int domain_pop(const void* domain) { return close_range(domain); }
// The names of ranges are in the payload, in a layout that the program registered.
int payload_push(const void* domain, const void*, std::size_t) { return push_text(nullptr, domain); }
int payload_pop(const void* domain, const void*, std::size_t) { return close_range(domain); }
// The ranges of a destroyed domain cannot be popped any more.
void destroy_domain(const void* domain) {
  while (domain != nullptr && close_range(domain) >= 0) {
  }
}
const void* register_a(const void*, const char* text) {
  return text == nullptr ? nullptr : strings.add(text, bounded_length(text));
}
const void* register_w(const void*, const wchar_t* text) {
  if (text == nullptr) return nullptr;
  Narrow narrow(text);
  return strings.add(narrow.text, narrow.length);
}
const void* create_domain_a(const char* name) { return register_a(nullptr, name); }
const void* create_domain_w(const wchar_t* name) { return register_w(nullptr, name); }

template <typename Pointer>
void fill(Function** table, unsigned size, unsigned place, Pointer function) {
  if (place < size && table[place] != nullptr) *table[place] = reinterpret_cast<Function>(function);
}

int initialize(GetExportTable get_table) {
  if (get_table == nullptr) return 0;
  const auto* callbacks = static_cast<const ExportTableCallbacks*>(get_table(kTableCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof(*callbacks)) return 0;
  Function** core = nullptr;
  unsigned size = 0;
  if (callbacks->get_module_function_table(kModuleCore, &core, &size) == 0 || core == nullptr) return 0;
  fill(core, size, kRangePushEx, push_ex);
  fill(core, size, kRangePushA, push_a);
  fill(core, size, kRangePushW, push_w);
  fill(core, size, kRangePop, pop);
  Function** domains = nullptr;
  if (callbacks->get_module_function_table(kModuleCore2, &domains, &size) == 0 || domains == nullptr) return 1;
  fill(domains, size, kDomainRangePushEx, domain_push);
  fill(domains, size, kDomainRangePop, domain_pop);
  fill(domains, size, kDomainRegisterStringA, register_a);
  fill(domains, size, kDomainRegisterStringW, register_w);
  fill(domains, size, kDomainCreateA, create_domain_a);
  fill(domains, size, kDomainCreateW, create_domain_w);
  fill(domains, size, kDomainDestroy, destroy_domain);
  return 1;
}

// Returns 1 for extensions that are not read, too: after a 0 nvtxDomainIsEnabled() would say that no tool listens.
int initialize_extension(ExtensionModule* module) {
  if (module == nullptr || module->compatibility >> 8 != 1 || module->struct_size < sizeof(ExtensionModule) ||
      module->segment_count == 0 || module->segments[0].functions == nullptr)
    return 1;
  const ExtensionSegment& segment = module->segments[0];
  if (module->module == kMemoryModule) fill_memory_functions(segment);
  if (module->module != kPayloadModule || segment.slots <= kRangePopPayload) return 1;
  segment.functions[kRangePushPayload] = reinterpret_cast<std::intptr_t>(payload_push);
  segment.functions[kRangePopPayload] = reinterpret_cast<std::intptr_t>(payload_pop);
  return 1;
}

}  // namespace
}  // namespace culprit

CULPRIT_EXPORT int InitializeInjectionNvtx2(culprit::GetExportTable get_table) {
  return culprit::initialize(get_table);
}

CULPRIT_EXPORT int InitializeInjectionNvtxExtension(culprit::ExtensionModule* module) {
  return culprit::initialize_extension(module);
}

extern "C" {
__attribute__((visibility("default"))) int (*InitializeInjectionNvtx2_fnptr)(culprit::GetExportTable) =
    InitializeInjectionNvtx2;
__attribute__((visibility("default"))) int (*InitializeInjectionNvtxExtension_fnptr)(culprit::ExtensionModule*) =
    InitializeInjectionNvtxExtension;
}
