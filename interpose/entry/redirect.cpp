// Answers dlsym() for the functions we hook.
//
// Exporting cuMemAlloc_v2 is not enough. libcudart never links to libcuda: it dlopen()s it, asks dlsym() for
// cuGetProcAddress_v2, and asks that for the rest. A program that only calls cudaMalloc would pass us by.
//
//     libcudart --dlsym--> [us] --> libcuda                                  older than 11.3: every function
//     libcudart --dlsym--> [us] --cuGetProcAddress--> [us] --> libcuda       11.3 and newer
//
// We do not hook dlopen: replacing it changes the caller, and glibc searches the CALLER's RUNPATH. Everything that is
// not ours to answer goes on to the real dlsym by a tail jump (dlsym_x86_64.S), so that RTLD_NEXT still means "after
// the caller".
#include "interpose/driver/redirect.h"

#include <dlfcn.h>

#include <cstring>

#include "interpose/attach/attach.h"
#include "interpose/base/elf_symbols.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_module.h"
#include "interpose/hooks/runtime_frees.h"
#include "interpose/recorder/process.h"

extern "C" {

// What the assembly stubs call, and where they jump.
struct DlsymAnswer {
  void* value;
  std::uint64_t answered;  // 0: jump on to the real function
};
#define CULPRIT_HIDDEN __attribute__((visibility("hidden")))
CULPRIT_HIDDEN DlsymAnswer culprit_answer_dlsym(void* handle, const char* name, void*, const void* caller);
CULPRIT_HIDDEN DlsymAnswer culprit_answer_dlvsym(void* handle, const char* name, const char* version,
                                                 const void* caller);
CULPRIT_HIDDEN void* (*culprit_real_dlsym)(void*, const char*) = nullptr;
CULPRIT_HIDDEN void* (*culprit_real_dlvsym)(void*, const char*, const char*) = nullptr;
}

namespace culprit {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// libc's own (libdl's before glibc 2.34): another interposer's, in front or behind, would ask us back.
Dlvsym real_dlvsym() {
  Dlvsym real = __atomic_load_n(&culprit_real_dlvsym, __ATOMIC_ACQUIRE);
  if (real != nullptr) return real;
  real = reinterpret_cast<Dlvsym>(libc_function("dlvsym"));
  __atomic_store_n(&culprit_real_dlvsym, real, __ATOMIC_RELEASE);
  return real;
}

Dlsym real_dlsym() {
  Dlsym real = __atomic_load_n(&culprit_real_dlsym, __ATOMIC_ACQUIRE);
  if (real != nullptr) return real;
  real = reinterpret_cast<Dlsym>(libc_function("dlsym"));
  __atomic_store_n(&culprit_real_dlsym, real, __ATOMIC_RELEASE);
  return real;
}

// Whether the module that `caller` lies in comes before ours in the order in which symbols are looked up.
struct Order {
  std::uint64_t caller;
  bool caller_seen;
};
int visit_for_order(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* order = static_cast<Order*>(data);
  ElfModule module;
  if (!describe_module(*info, &module)) return 0;
  if (module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) return 1;
  if (module.contains(order->caller)) order->caller_seen = true;
  return 0;
}
bool stands_before_us(const void* caller) {
  Order order = {reinterpret_cast<std::uint64_t>(caller), false};
  visit_modules(visit_for_order, &order);
  return order.caller_seen;
}

}  // namespace

bool find_hooked_name(const char* symbol, Api* api) {
  for (int i = 0; i < kApiCount; ++i) {
    if (std::strcmp(api_name(static_cast<Api>(i)), symbol) == 0) {
      *api = static_cast<Api>(i);
      return true;
    }
  }
  return false;
}

}  // namespace culprit

using culprit::Api;

DlsymAnswer culprit_answer_dlsym(void* handle, const char* name, void*, const void*) {
  constexpr DlsymAnswer kForward = {nullptr, 0};
  // Whoever loads a library asks for something in it before it runs.
  if (culprit::loaded_late()) culprit::look_at_new_modules();
  auto real = culprit::real_dlsym();
  // Our cudaFree is for those who are linked to one; nobody who asks by name needs it.
  if (!culprit::loaded_late() && handle != RTLD_NEXT && name != nullptr && std::strncmp(name, "cuda", 4) == 0 &&
      culprit::is_runtime_free(name)) {
    void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
    bool ours = found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found));
    return {handle == RTLD_DEFAULT || ours ? real(RTLD_NEXT, name) : found, 1};
  }
  Api api;
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u' ||
      !culprit::find_hooked_name(name, &api)) {
    return kForward;
  }
  culprit::note_sign_of_cuda();
  // RTLD_DEFAULT, and the handle of the program itself, find our own export even where there is no CUDA: ask what
  // stands behind us instead.
  void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
  if (culprit::loaded_late() && handle == RTLD_DEFAULT) {
    // Nobody finds our exports by himself, and what he finds depends on who he is: asked in his name, unless it is
    // libcuda's for everybody.
    found = real(RTLD_DEFAULT, name);
    Api at_address;
    bool hooked = culprit::find_hooked(found, &at_address);
    return hooked ? DlsymAnswer{culprit::hook_address(at_address), 1} : kForward;
  }
  bool everywhere =
      handle == RTLD_DEFAULT || (found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found)));
  if (everywhere) found = real(RTLD_NEXT, name);
  if (found == nullptr) return {nullptr, 1};
  Api at_address;
  if (culprit::find_hooked(found, &at_address)) return {culprit::hook_address(at_address), 1};
  // Not libcuda's: another interposer answered for libcuda. Our hook calls that one, so that both see the call.
  if (!culprit::in_driver(found) && (everywhere || culprit::is_driver_handle(handle))) {
    culprit::set_next_address(api, found);
    return {culprit::hook_address(api), 1};
  }
  return {found, 1};
}

// Another interposer in front of us finds "the real dlsym" by version, as we do, and libc's has that version and ours
// has none: it would pass us by. So it is given ours. Not for anybody behind us, to whom we forward: that would go
// round for ever.
DlsymAnswer culprit_answer_dlvsym(void* handle, const char* name, const char*, const void* caller) {
  culprit::real_dlvsym();
  if (handle != RTLD_NEXT || name == nullptr || std::strcmp(name, "dlsym") != 0 || !culprit::stands_before_us(caller))
    return {nullptr, 0};
  return {reinterpret_cast<void*>(&dlsym), 1};
}
