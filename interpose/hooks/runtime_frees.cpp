#include "interpose/hooks/runtime_frees.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/hash.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_module.h"
#include "interpose/recorder/events.h"
#include "interpose/recorder/process.h"

extern "C" __attribute__((visibility("hidden"))) void* culprit_runtime_target(std::uint64_t function,
                                                                              const void* caller);

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

// Finds the libcudart that a module is linked to: the first one in its DT_NEEDED entries.
struct Search {
  const char* name;
  std::uint64_t caller;
  const char* needed;       // the name of the caller's libcudart, nullptr = none
  std::uint64_t in_needed;  // the function there
  std::uint64_t in_caller;  // the caller defines it itself (a static cudart inside a library)
  std::uint64_t in_first;   // the first definition in load order
};

int visit_for_caller(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  ElfModule module;
  if (!describe_module(*info, &module) || !module.contains(search->caller)) return 0;
  for (const ElfW(Dyn)* entry = module.dynamic; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag != DT_NEEDED) continue;
    const char* needed = module.strings + entry->d_un.d_val;
    if (std::strncmp(needed, "libcudart.so", 12) == 0 && search->needed == nullptr) search->needed = needed;
  }
  search->in_caller = find_symbol(module, search->name);
  return 1;
}

int visit_for_function(struct dl_phdr_info* info, std::size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  ElfModule module;
  if (!describe_module(*info, &module) || module.contains(reinterpret_cast<std::uint64_t>(__ehdr_start))) return 0;
  std::uint64_t address = find_symbol(module, search->name);
  if (address == 0) return 0;
  if (search->in_first == 0) search->in_first = address;
  bool is_needed =
      search->needed != nullptr && module.soname != nullptr && std::strcmp(module.soname, search->needed) == 0;
  if (is_needed) search->in_needed = address;
  return is_needed;
}

int no_runtime() { return kInitializationError; }

void* find_real(std::uint64_t function, const void* caller) {
  Search search = {kNames[function], reinterpret_cast<std::uint64_t>(caller), nullptr, 0, 0, 0};
  visit_modules(visit_for_caller, &search);
  visit_modules(visit_for_function, &search);
  std::uint64_t found = search.in_needed != 0   ? search.in_needed
                        : search.in_caller != 0 ? search.in_caller
                                                : search.in_first;
  return found != 0 ? reinterpret_cast<void*>(found) : reinterpret_cast<void*>(&no_runtime);
}

// A call site keeps its libcudart until a module is unloaded.
struct Known {
  std::atomic<std::uint64_t> site;  // call address and function, 0 while being written
  std::atomic<void*> real;
  std::atomic<std::uint32_t> generation;
};
constexpr std::uint64_t kKnown = 1024;
Known known[kKnown];

void* real_of(std::uint64_t function, const void* caller) {
  std::uint64_t site = reinterpret_cast<std::uint64_t>(caller) * 8 + function;
  std::uint32_t generation = module_generation.load(std::memory_order_acquire);
  Known& slot = known[mix(site) % kKnown];
  if (slot.site.load(std::memory_order_acquire) == site) {
    void* real = slot.real.load(std::memory_order_relaxed);
    std::uint32_t when = slot.generation.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.site.load(std::memory_order_relaxed) == site && when == generation) return real;
  }
  void* real = find_real(function, caller);
  slot.site.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  slot.real.store(real, std::memory_order_relaxed);
  slot.generation.store(generation, std::memory_order_relaxed);
  slot.site.store(site, std::memory_order_release);
  return real;
}

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
  void* real = culprit::real_of(function, caller);
  if (culprit::exiting.load(std::memory_order_acquire) == 0) return real;
  culprit::function_at_exit = real;
  return reinterpret_cast<void*>(culprit::kAtExit[function]);
}
