// The ways to look up the driver's functions.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <regex>
#include <string>

#include "tests/subjects/routes/routes.h"

namespace routes {
namespace {

using OldGetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t);
using GetProcAddress = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);

constexpr int kNewest = CUDA_VERSION;

// Which symbol a name of cuGetProcAddress means, from which CUDA version on.
struct Version {
  const char* name;
  int since;
  const char* symbol;
};

constexpr Version kVersions[] = {
#include "driver_versions.inc"
};

struct Wanted {
  std::string name;    // without version
  const char* symbol;  // in the ELF file
  int since = 0;
  int until = std::numeric_limits<int>::max();  // from this version on the name means another symbol

  explicit Wanted(const char* elf_symbol) : name(elf_symbol), symbol(elf_symbol) {
    const std::string plain = std::regex_replace(name, std::regex("_v[0-9]+$"), "");
    for (const Version& row : kVersions) {
      if (plain != row.name) continue;
      name = plain;
      if (std::strcmp(row.symbol, symbol) == 0) since = row.since;
      if (since != 0 && row.since > since) until = std::min(until, row.since);
    }
  }
  // The version to ask for, when the route prefers `version`, so that `name` means `symbol`.
  int version(int preferred) const { return preferred >= since && preferred < until ? preferred : since; }
};

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
  const int version = wanted.version(kNewest);
  return get(wanted.name.c_str(), &function, version, CU_GET_PROC_ADDRESS_DEFAULT) == CUDA_SUCCESS ? function : nullptr;
}

// Asks for `version`, and for the newest version where the function is younger than that.
void* ask(GetProcAddress get, const Wanted& wanted, int version, cuuint64_t flags) {
  for (const int asked : {wanted.version(version), wanted.version(kNewest)}) {
    void* function = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult code = get(wanted.name.c_str(), &function, asked, flags, &status);
    if (code == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS) return function;
  }
  return nullptr;
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
  static const auto get = reinterpret_cast<GetProcAddress>(
      ask(proc_address(), Wanted("cuGetProcAddress_v2"), kNewest, CU_GET_PROC_ADDRESS_DEFAULT));
  return ask(get, wanted, kNewest, CU_GET_PROC_ADDRESS_DEFAULT);
}

// Answers for the newest version only, so the older symbols come by dlsym here.
void* by_entry_point(const Wanted& wanted) {
  if (wanted.until <= kNewest) return by_handle(wanted);
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const cudaError_t code = cudaGetDriverEntryPoint(wanted.name.c_str(), &function, cudaEnableDefault, &status);
#pragma GCC diagnostic pop
  return code == cudaSuccess && status == cudaDriverEntryPointSuccess ? function : nullptr;
}

void* by_entry_point_version(const Wanted& wanted) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  const cudaError_t code = cudaGetDriverEntryPointByVersion(
      wanted.name.c_str(), &function, static_cast<unsigned>(wanted.version(kNewest)), cudaEnableDefault, &status);
  return code == cudaSuccess && status == cudaDriverEntryPointSuccess ? function : nullptr;
}

}  // namespace

struct Route {
  const char* name;
  void* (*find)(const Wanted&);
};

namespace {

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

Driver::Driver(const char* route) {
#ifdef ROUTES_LINKED
  is_linked_ = std::strcmp(route, "linked") == 0;
  if (is_linked_) return;
#endif
  route_ = std::find_if(std::begin(kRoutes), std::end(kRoutes),
                        [&](const Route& known) { return std::strcmp(known.name, route) == 0; });
  if (route_ == std::end(kRoutes)) {
    std::fprintf(stderr, "%s: no such route\n", route);
    std::exit(3);
  }
}

void* Driver::find(const char* symbol) const {
  void* function = route_->find(Wanted(symbol));
  if (function == nullptr) throw Unsupported{symbol, CUDA_ERROR_NOT_FOUND};
  return function;
}

}  // namespace routes
