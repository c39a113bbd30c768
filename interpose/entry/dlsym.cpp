// Answers dlsym() for the functions we hook.
//
// Exporting cuMemAlloc_v2 is not enough. libcudart never links to libcuda: it dlopen()s it, asks dlsym() for
// cuGetProcAddress_v2, and asks that for the rest. A program that only calls cudaMalloc would bypass our hooks.
//
//     libcudart --dlsym--> [us] --> libcuda                                  older than 11.3: every function
//     libcudart --dlsym--> [us] --cuGetProcAddress--> [us] --> libcuda       11.3 and newer
//
// We do not hook dlopen: replacing it changes the caller, and glibc searches the CALLER's RUNPATH. All other lookups go
// on to the real dlsym by a tail jump (dlsym_x86_64.S), so that RTLD_NEXT still means "after the caller".
#include <dlfcn.h>

#include <cstring>

#include "interpose/attach/attach.h"
#include "interpose/attach/audit.h"
#include "interpose/base/elf_symbols.h"
#include "interpose/base/own_module.h"
#include "interpose/base/placement.h"
#include "interpose/control/recording_switch.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/entry_points.h"
#include "interpose/events/driver_lives.h"
#include "interpose/hooks/hooks.h"
#include "interpose/hooks/runtime_frees.h"
#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_lock.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/prepared.h"

extern "C" {

// The result of the functions that the assembly stubs call.
struct DlsymAnswer {
  void* value;
  std::uint64_t answered;  // 0: jump on to the real function
};
CULPRIT_OWN DlsymAnswer culprit_answer_dlsym(void* handle, const char* name, void*, const void* caller);
CULPRIT_OWN DlsymAnswer culprit_answer_dlvsym(void* handle, const char* name, const char* version, const void* caller);
CULPRIT_OWN void* (*culprit_real_dlsym)(void*, const char*) = nullptr;
CULPRIT_OWN void* (*culprit_real_dlvsym)(void*, const char*, const char*) = nullptr;
}

namespace culprit {
namespace {

using Dlsym = void* (*)(void*, const char*);
using Dlvsym = void* (*)(void*, const char*, const char*);

// libc's own (libdl's before glibc 2.34): another interposer's would call us again.
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

// The program may get libc's own dlclose(), whose calls our dlclose() does not see.
void note_look_up(const char* name) {
  if (name != nullptr && std::strcmp(name, "dlclose") == 0) expect_unseen_unloadings();
}

// Whether the module of `caller` comes before ours in symbol lookup order.
bool stands_before_us(const void* caller) {
  bool caller_seen = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (is_own_module(module)) return true;
    caller_seen = caller_seen || module.contains(reinterpret_cast<std::uint64_t>(caller));
    return false;
  });
  return caller_seen;
}

}  // namespace

}  // namespace culprit

using culprit::Api;

DlsymAnswer culprit_answer_dlsym(void* handle, const char* name, void*, const void*) {
  constexpr DlsymAnswer kForward = {nullptr, 0};
  culprit::ensure_prepared();
  culprit::note_look_up(name);
  // After a dlopen() a program looks up symbols before it calls the library.
  if (culprit::loaded_late()) culprit::look_at_new_modules();
  auto real = culprit::real_dlsym();
  // Our cudaFree serves modules that are linked to cudaFree; lookups by name get the real one.
  if (!culprit::loaded_late() && handle != RTLD_NEXT && name != nullptr && std::strncmp(name, "cuda", 4) == 0 &&
      culprit::is_runtime_free(name)) {
    void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
    bool ours = found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found));
    return {handle == RTLD_DEFAULT || ours ? real(RTLD_NEXT, name) : found, 1};
  }
  // The audit makes way for a profiler (audit.h). Lookups by name must not find our export where there is no CUPTI.
  if (!culprit::loaded_late() && handle != RTLD_NEXT && name != nullptr && std::strncmp(name, "cuptiSub", 8) == 0 &&
      culprit::is_cupti_subscribe(name)) {
    void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
    bool ours = found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found));
    if (handle == RTLD_DEFAULT || ours) found = real(RTLD_NEXT, name);
    return {culprit::stand_in_for_subscribe(name, found), 1};
  }
  Api api;
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u' ||
      !culprit::find_hooked_name(name, &api)) {
    return kForward;
  }
  culprit::note_sign_of_cuda();
  // RTLD_DEFAULT, and the handle of the program itself, find our own export even without CUDA: look up the next
  // definition after us instead.
  void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
  if (culprit::loaded_late() && handle == RTLD_DEFAULT) {
    // Loaded late, we are last in lookup order, and RTLD_DEFAULT depends on the caller: the lookup must run for the
    // caller, unless it finds libcuda's function for every caller.
    found = real(RTLD_DEFAULT, name);
    culprit::HookedFunction at_address;
    bool hooked = culprit::find_hooked(found, &at_address);
    culprit::keep_lives_apart();
    return hooked ? DlsymAnswer{culprit::hook_address(at_address), 1} : kForward;
  }
  bool everywhere =
      handle == RTLD_DEFAULT || (found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found)));
  if (everywhere) found = real(RTLD_NEXT, name);
  if (found == nullptr) return {nullptr, 1};
  culprit::HookedFunction at_address;
  const bool hooked = culprit::find_hooked(found, &at_address);
  culprit::keep_lives_apart();
  if (hooked) return {culprit::hook_address(at_address), 1};
  // The function is not in libcuda: another interposer replaced it. Our hook calls that one, so that both see the call.
  if ((everywhere || culprit::is_driver_handle(handle)) && !culprit::lies_in_driver(found)) {
    culprit::set_next_address(api, found);
    return {culprit::hook_address(api), 1};
  }
  return {found, 1};
}

// An interposer before us looks up "the real dlsym" by version, as we do. Only libc's has that version, so it would
// bypass us. So it gets ours. Modules after us get libc's, because we forward to them: ours would be an endless loop.
DlsymAnswer culprit_answer_dlvsym(void* handle, const char* name, const char*, const void* caller) {
  culprit::real_dlvsym();
  culprit::note_look_up(name);
  if (handle != RTLD_NEXT || name == nullptr || std::strcmp(name, "dlsym") != 0 || !culprit::stands_before_us(caller))
    return {nullptr, 0};
  return {reinterpret_cast<void*>(&dlsym), 1};
}
