// Answers dladdr() and dladdr1() for our hooks as for the functions that they stand in for.
//
// A program that has the address of a driver function, from dlsym(), cuGetProcAddress() or the loader, has our hook's.
// Tools ask dladdr() about it to find libcuda's folder. Every other address goes on to the real function by a tail jump
// (dladdr_*.S), also one inside a hook, as a stack frame has it: it is ours. Neither takes a lock beside libc's own.
#include <dlfcn.h>

#include <cstdint>

#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"
#include "interpose/driver/entry_points.h"
#include "interpose/entry/own_exports.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/next_functions.h"

extern "C" {

// The result of the functions that the assembly stubs call.
struct DladdrAnswer {
  std::int64_t value;
  std::uint64_t answered;  // 0: jump on to the real function
};
CULPRIT_OWN DladdrAnswer culprit_answer_dladdr(const void* address, Dl_info* info);
CULPRIT_OWN DladdrAnswer culprit_answer_dladdr1(const void* address, Dl_info* info, void** extra, int flags);
CULPRIT_OWN int (*culprit_real_dladdr)(const void*, Dl_info*) = nullptr;
CULPRIT_OWN int (*culprit_real_dladdr1)(const void*, Dl_info*, void**, int) = nullptr;
}

namespace culprit {
namespace {

// The function that one of our exports stands in for; nullptr when there is none.
const void* behind(const char* name) {
  Api api;
  if (find_hooked_name(name, &api)) {
    // Another interposer's, or libcuda's where a stand-in of our own comes before it (put_in_front()).
    const void* next = next_address(api);
    return in_own_module(reinterpret_cast<std::uint64_t>(next)) ? driver_address(api) : next;
  }
  return stands_in(name) ? reinterpret_cast<const void*>(next_definition(name)) : nullptr;
}

// The function behind the export that begins at this address; nullptr for all other addresses.
const void* behind_export(const void* address) {
  const auto wanted = reinterpret_cast<std::uint64_t>(address);
  if (CULPRIT_LIKELY(!in_own_module(wanted))) return nullptr;
  const OwnExports& exports = own_exports();
  for (std::uint32_t i = 0; i < exports.count; ++i) {
    if (exports.address(i) == wanted) return behind(exports.name(i));
  }
  return nullptr;
}

template <typename Function>
Function* real_function(Function** known, void* (*find)()) {
  Function* real = __atomic_load_n(known, __ATOMIC_ACQUIRE);
  if (real != nullptr) return real;
  real = reinterpret_cast<Function*>(find());
  __atomic_store_n(known, real, __ATOMIC_RELEASE);
  return real;
}

template <typename Ask>
DladdrAnswer answer(const void* address, Dl_info* info, Ask ask) {
  const void* function = behind_export(address);
  if (CULPRIT_LIKELY(function == nullptr)) return {0, 0};
  const int found = ask(function);
  // A caller compares the symbol's address with its own, or takes their difference: they are equal, as alone.
  if (found != 0 && info->dli_saddr == function) info->dli_saddr = const_cast<void*>(address);
  return {found, 1};
}

}  // namespace
}  // namespace culprit

DladdrAnswer culprit_answer_dladdr(const void* address, Dl_info* info) {
  auto* real = culprit::real_function(&culprit_real_dladdr, culprit::next_dladdr);
  if (real == nullptr) return {0, 1};
  return culprit::answer(address, info, [&](const void* function) { return real(function, info); });
}

DladdrAnswer culprit_answer_dladdr1(const void* address, Dl_info* info, void** extra, int flags) {
  auto* real = culprit::real_function(&culprit_real_dladdr1, culprit::next_dladdr1);
  if (real == nullptr) return {0, 1};
  return culprit::answer(address, info, [&](const void* function) { return real(function, info, extra, flags); });
}
