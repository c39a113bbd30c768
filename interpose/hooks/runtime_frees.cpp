#include "interpose/hooks/runtime_frees.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/placement.h"
#include "interpose/events/events.h"
#include "interpose/stacks/call_site_cache.h"

extern "C" CULPRIT_OWN void* culprit_runtime_target(std::uint64_t function, const void* caller);

namespace culprit {
namespace {

// The order is that of the stubs in runtime_frees_*.S.
constexpr const char* kNames[] = {"cudaFree",      "cudaFreeHost",           "cudaFreeAsync",     "cudaFreeAsync_ptsz",
                                  "cudaFreeArray", "cudaFreeMipmappedArray", "cudaHostUnregister"};
// The runtime's arrays are the driver's (CUDA Runtime API, "Interactions with the CUDA Driver API").
constexpr format::Kind kKinds[] = {
    format::Kind::kDevice, format::Kind::kPinnedHost,     format::Kind::kStreamOrdered, format::Kind::kStreamOrdered,
    format::Kind::kArray,  format::Kind::kMipmappedArray, format::Kind::kRegisteredHost};
constexpr int kUnloading = 4;  // cudaErrorCudartUnloading
constexpr int kInitializationError = 3;

std::atomic<int> exiting;

int no_runtime() { return kInitializationError; }

// The libcudart that the caller's module is linked to: the first one in its DT_NEEDED entries.
void* find_real(std::uint64_t function, const void* caller) {
  const char* name = kNames[function];
  const char* needed = nullptr;  // the name of the caller's libcudart
  std::uint64_t in_needed = 0;   // the function there
  std::uint64_t in_caller = 0;   // the caller defines it itself (a static cudart inside a library)
  std::uint64_t in_first = 0;    // the first definition in load order
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    if (!module.contains(reinterpret_cast<std::uint64_t>(caller))) return false;
    for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL && needed == nullptr; ++entry) {
      const char* library = entry->d_tag == DT_NEEDED ? module.strings + entry->d_un.d_val : "";
      if (std::strncmp(library, "libcudart.so", 12) == 0) needed = library;
    }
    in_caller = find_symbol(module, name);
    return true;
  });
  any_module([&](const ElfModule& module, const struct dl_phdr_info&) {
    std::uint64_t address = is_own_module(module) ? 0 : find_symbol(module, name);
    if (address == 0) return false;
    if (in_first == 0) in_first = address;
    if (needed != nullptr && module.soname != nullptr && std::strcmp(module.soname, needed) == 0) in_needed = address;
    return in_needed != 0;
  });
  std::uint64_t found = in_needed != 0 ? in_needed : in_caller != 0 ? in_caller : in_first;
  return found != 0 ? reinterpret_cast<void*>(found) : reinterpret_cast<void*>(&no_runtime);
}

CallSiteCache known;

// The function that free_at_exit() must call: the stub's lookup leaves it here.
__thread void* function_at_exit __attribute__((tls_model("initial-exec")));

// The target of the stubs once exit handlers run.
template <int kFunction>
int free_at_exit(void* pointer, void* stream) {
  auto* real = reinterpret_cast<int (*)(void*, void*)>(function_at_exit);
  int status = real(pointer, stream);
  if (status == kUnloading) note_late_free(kKinds[kFunction], reinterpret_cast<std::uint64_t>(pointer));
  return status;
}
constexpr int (*kAtExit[])(void*, void*) = {free_at_exit<0>, free_at_exit<1>, free_at_exit<2>, free_at_exit<3>,
                                            free_at_exit<4>, free_at_exit<5>, free_at_exit<6>};

}  // namespace

bool is_runtime_free(const char* symbol) {
  for (const char* name : kNames) {
    if (std::strcmp(name, symbol) == 0) return true;
  }
  return false;
}

void watch_runtime_frees() { exiting.store(1, std::memory_order_release); }

}  // namespace culprit

void* culprit_runtime_target(std::uint64_t function, const void* caller) {
  void* real = culprit::known.target(function, caller, [&] { return culprit::find_real(function, caller); });
  if (culprit::exiting.load(std::memory_order_acquire) == 0) return real;
  culprit::function_at_exit = real;
  return reinterpret_cast<void*>(culprit::kAtExit[function]);
}
