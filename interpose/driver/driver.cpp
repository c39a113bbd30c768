// Finds libcuda and the real functions, once, in libcuda's own symbol table.
#include "interpose/driver/driver.h"

#include <atomic>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/prepared.h"
#include "interpose/driver/entry_points.h"

namespace culprit {

namespace {

Driver calls;
ElfModule libcuda;
std::atomic<int> found;

void resolve() {
#define CULPRIT_RESOLVE(name) calls.name = reinterpret_cast<decltype(calls.name)>(find_symbol(libcuda, #name));
  CULPRIT_DRIVER_CALLS(CULPRIT_RESOLVE)
#undef CULPRIT_RESOLVE
  learn_entry_points(libcuda);
}

// Without a lock, because a fork child could find it locked for ever: concurrent threads store equal values, and each
// thread stores all of them before it continues.
bool find_libcuda() {
  const bool is_there = any_module([](const ElfModule& module, const struct dl_phdr_info&) {
    if (!is_libcuda(module)) return false;
    libcuda = module;
    return true;
  });
  if (!is_there) return false;
  resolve();
  found.store(1, std::memory_order_release);
  return true;
}

}  // namespace

bool is_libcuda(const ElfModule& module) {
  return module.soname != nullptr && std::strcmp(module.soname, "libcuda.so.1") == 0 &&
         find_symbol(module, "cuInit") != 0;
}

const Driver& driver() { return calls; }

bool driver_ready() {
  if (found.load(std::memory_order_acquire) != 0) return true;
  ensure_prepared();
  return on_own_stack([] { return find_libcuda(); });
}

bool in_driver(const void* address) {
  return driver_ready() && libcuda.contains(reinterpret_cast<std::uint64_t>(address));
}

bool driver_range(std::uint64_t* begin, std::uint64_t* end) {
  if (!driver_ready()) return false;
  *begin = libcuda.begin;
  *end = libcuda.end;
  return true;
}

bool is_driver_handle(const void* handle) {
  // glibc's handles are its link_map pointers; l_addr is the load bias (link.h).
  return driver_ready() && handle != nullptr && handle != reinterpret_cast<void*>(-1) &&
         static_cast<const struct link_map*>(handle)->l_addr == libcuda.load_bias;
}

bool cuda_is_loaded() {
  // By name: NVIDIA's libraries may lack what any_module() needs.
  return any_loaded_module([](const struct dl_phdr_info& info) {
    const char* path = info.dlpi_name != nullptr ? info.dlpi_name : "";
    const char* slash = std::strrchr(path, '/');
    const char* name = slash != nullptr ? slash + 1 : path;
    return std::strncmp(name, "libcuda.so", 10) == 0 || std::strncmp(name, "libcudart", 9) == 0;
  });
}

}  // namespace culprit
