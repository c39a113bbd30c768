// cuGetProcAddress: names to addresses, by the version and the kind of default stream that the caller wants.
#include <algorithm>
#include <cstring>
#include <string>

#include "tests/simcuda/driver/call.h"

// Generated (generate_entries.cmake).
struct SimcudaExport {
  const char* name;
  void* address;
};
extern "C" const SimcudaExport simcuda_exports[];  // sorted by name
extern "C" const std::uint64_t simcuda_export_count;

namespace simcuda {
namespace {

struct VersionRow {
  const char* name;
  int since;
  const char* function;
};

constexpr VersionRow kVersions[] = {
#include "driver_versions.inc"
};

void* find_export(const std::string& name) {
  const SimcudaExport* end = simcuda_exports + simcuda_export_count;
  const SimcudaExport* found = std::lower_bound(
      simcuda_exports, end, name,
      [](const SimcudaExport& row, const std::string& wanted) { return wanted.compare(row.name) > 0; });
  return found != end && name == found->name ? found->address : nullptr;
}

CUresult look_up(const char* symbol, void** out, int version, cuuint64_t flags,
                 CUdriverProcAddressQueryResult* result) {
  if (symbol == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUdriverProcAddressQueryResult ignored;
  if (result == nullptr) result = &ignored;
  *out = nullptr;
  *result = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  bool versioned = false;
  std::string function = symbol;
  for (const VersionRow& row : kVersions) {
    if (strcmp(row.name, symbol) != 0) continue;
    if (!versioned) function.clear();
    versioned = true;
    if (row.since <= version) function = row.function;
  }
  if (function.empty()) {
    *result = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
    return CUDA_ERROR_NOT_FOUND;
  }
  if ((flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0) {
    for (const char* suffix : {"_ptsz", "_ptds"}) {
      if (*out == nullptr) *out = find_export(function + suffix);
    }
  }
  if (*out == nullptr) *out = find_export(function);
  if (*out == nullptr) return CUDA_ERROR_NOT_FOUND;
  *result = CU_GET_PROC_ADDRESS_SUCCESS;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simcuda

SIM(cuGetProcAddress_v2)
(const char* symbol, void** out, int version, cuuint64_t flags, CUdriverProcAddressQueryResult* result) {
  return simcuda::look_up(symbol, out, version, flags, result);
}

SIM(cuGetProcAddress)(const char* symbol, void** out, int version, cuuint64_t flags) {
  return simcuda::look_up(symbol, out, version, flags, nullptr);
}
