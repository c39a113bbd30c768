// The ways to look up the driver's functions.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/subjects/routes/routes.h"

namespace routes {
namespace {

using OldGetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

constexpr int kNewest = CUDA_VERSION;

struct Wanted {
  const char* name;    // without version
  const char* symbol;  // in the ELF file
  int since;
  int until;

  // The version to ask for, when the route prefers `version`, so that `name` means `symbol`.
  int version(int preferred) const { return std::min(std::max(preferred, since), until); }
};

[[noreturn]] void fail(const Wanted& wanted, const char* why) {
  std::fprintf(stderr, "%s: %s\n", wanted.symbol, why);
  std::exit(3);
}

void* libcuda(int flags) {
  static void* const handle = dlopen("libcuda.so.1", flags);
  if (handle == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    std::exit(3);
  }
  return handle;
}

void* by_handle(const Wanted& wanted) { return dlsym(libcuda(RTLD_NOW | RTLD_LOCAL), wanted.symbol); }

void* by_default(const Wanted& wanted) {
  libcuda(RTLD_NOW | RTLD_GLOBAL);
  return dlsym(RTLD_DEFAULT, wanted.symbol);
}

void* by_old_proc_address(const Wanted& wanted) {
  static const auto get = reinterpret_cast<OldGetProcAddress>(dlsym(libcuda(RTLD_NOW), "cuGetProcAddress"));
  void* function = nullptr;
  return get(wanted.name, &function, wanted.version(kNewest), CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS ? function
                                                                                                           : nullptr;
}

void* ask(GetProcAddress get, const Wanted& wanted, int version, cuuint64_t flags) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get(wanted.name, &function, wanted.version(version), flags, &status) != CUDA_SUCCESS) return nullptr;
  return status == CU_GET_PROC_ADDRESS_SUCCESS ? function : nullptr;
}

GetProcAddress proc_address() {
  static const auto get = reinterpret_cast<GetProcAddress>(dlsym(libcuda(RTLD_NOW), "cuGetProcAddress_v2"));
  return get;
}

void* by_proc_address(const Wanted& wanted) {
  return ask(proc_address(), wanted, kNewest, CU_GET_PROC_ADDRESS_DEFAULT);
}
void* by_proc_address_12(const Wanted& wanted) {
  return ask(proc_address(), wanted, 12000, CU_GET_PROC_ADDRESS_LEGACY_STREAM);
}
void* by_proc_address_11(const Wanted& wanted) {
  return ask(proc_address(), wanted, 11030, CU_GET_PROC_ADDRESS_DEFAULT);
}
void* by_proc_address_per_thread(const Wanted& wanted) {
  return ask(proc_address(), wanted, kNewest, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
}

// cuGetProcAddress returns itself, too; cudart uses it like this.
void* by_proc_address_of_itself(const Wanted& wanted) {
  static const auto get = reinterpret_cast<GetProcAddress>(ask(
      proc_address(), {"cuGetProcAddress", "cuGetProcAddress_v2", 12000, 99000}, kNewest, CU_GET_PROC_ADDRESS_DEFAULT));
  return ask(get, wanted, kNewest, CU_GET_PROC_ADDRESS_DEFAULT);
}

// Answers for the newest version only, so the older symbols come by dlsym here.
void* by_entry_point(const Wanted& wanted) {
  if (wanted.until < kNewest) return by_handle(wanted);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const cudaError_t code = cudaGetDriverEntryPoint(wanted.name, &function, cudaEnableDefault, &status);
#pragma GCC diagnostic pop
  return code == cudaSuccess && status == cudaDriverEntryPointSuccess ? function : nullptr;
}

void* by_entry_point_version(const Wanted& wanted) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code = cudaGetDriverEntryPointByVersion(
      wanted.name, &function, static_cast<unsigned>(wanted.version(kNewest)), cudaEnableDefault, &status);
  return code == cudaSuccess && status == cudaDriverEntryPointSuccess ? function : nullptr;
}

struct Route {
  const char* name;
  void* (*find)(const Wanted&);
};

const Route kRoutes[] = {
    {"dlsym", by_handle},
    {"dlsym-default", by_default},
    {"proc-address-old", by_old_proc_address},
    {"proc-address", by_proc_address},
    {"proc-address-12", by_proc_address_12},
    {"proc-address-11", by_proc_address_11},
    {"proc-address-per-thread", by_proc_address_per_thread},
    {"proc-address-of-itself", by_proc_address_of_itself},
    {"entry-point", by_entry_point},
    {"entry-point-version", by_entry_point_version},
};

}  // namespace

Driver find_driver(const char* route) {
  Driver driver;
#ifdef ROUTES_LINKED
  if (std::strcmp(route, "linked") == 0) {
#define DRIVER(name, symbol, since, until) driver.symbol = &::symbol;
#include "tests/subjects/routes/driver_functions.def"
    return driver;
  }
#endif
  const Route* found = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                                    [&](const Route& r) { return std::strcmp(r.name, route) == 0; });
  if (found == std::end(kRoutes)) fail({route, route, 0, 0}, "no such route");
  Wanted wanted;
#define DRIVER(name, elf_symbol, since, until)                                            \
  wanted = {#name, #elf_symbol, since, until};                                            \
  driver.elf_symbol = reinterpret_cast<decltype(driver.elf_symbol)>(found->find(wanted)); \
  if (driver.elf_symbol == nullptr) fail(wanted, "not found");
#include "tests/subjects/routes/driver_functions.def"
  return driver;
}

}  // namespace routes
