// Answers dlsym() for the functions we hook.
//
// Exporting cuMemAlloc_v2 is not enough. libcudart never links to libcuda: it dlopen()s it, asks dlsym() for
// cuGetProcAddress_v2, and asks that for the rest. A program that only calls cudaMalloc would pass us by.
//
//     libcudart --dlsym--> [us] --> libcuda                                  older than 11.3: every function
//     libcudart --dlsym--> [us] --cuGetProcAddress--> [us] --> libcuda       11.3 and newer
//
// We do not hook dlopen: replacing it changes the caller, and glibc searches the CALLER's RUNPATH. Everything that is not
// ours to answer goes on to the real dlsym by a tail jump (dlsym_x86_64.S), so that RTLD_NEXT still means "after the caller".
#include "interpose/redirect.h"

#include <dlfcn.h>

#include <cstring>

#include "interpose/own_module.h"
#include "interpose/process.h"

extern "C" {

// What the assembly stub calls, and where it jumps.
struct DlsymAnswer {
  void* value;
  std::uint64_t answered;  // 0: jump on to culprit_real_dlsym
};
__attribute__((visibility("hidden"))) DlsymAnswer culprit_answer_dlsym(void* handle, const char* name);
__attribute__((visibility("hidden"))) void* (*culprit_real_dlsym)(void*, const char*) = nullptr;
}

namespace culprit {
namespace {

using Dlsym = void* (*)(void*, const char*);

// By version: an unversioned look-up of "dlsym" from here would find ourselves, and older glibc has it in libdl only.
// Another interposer that stands behind us defines it without a version, which matches too: then we forward to that one.
Dlsym real_dlsym() {
  Dlsym real = __atomic_load_n(&culprit_real_dlsym, __ATOMIC_ACQUIRE);
  if (real != nullptr) return real;
#if defined(__x86_64__)
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.2.5"};
#else
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.17"};
#endif
  for (const char* version : kVersions) {
    real = reinterpret_cast<Dlsym>(dlvsym(RTLD_NEXT, "dlsym", version));
    if (real != nullptr) break;
  }
  __atomic_store_n(&culprit_real_dlsym, real, __ATOMIC_RELEASE);
  return real;
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

void prepare_dlsym() { real_dlsym(); }

}  // namespace culprit

using culprit::Api;

DlsymAnswer culprit_answer_dlsym(void* handle, const char* name) {
  constexpr DlsymAnswer kForward = {nullptr, 0};
  auto real = culprit::real_dlsym();
  Api api;
  if (handle == RTLD_NEXT || name == nullptr || name[0] != 'c' || name[1] != 'u' || !culprit::find_hooked_name(name, &api)) {
    return kForward;
  }
  // RTLD_DEFAULT, and the handle of the program itself, find our own export even where there is no CUDA: ask what stands
  // behind us instead.
  void* found = handle == RTLD_DEFAULT ? nullptr : real(handle, name);
  bool everywhere = handle == RTLD_DEFAULT || (found != nullptr && culprit::in_own_module(reinterpret_cast<std::uint64_t>(found)));
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
