#include "tests/simcuda/driver/observer.h"

#include <cuda.h>

#include <cstring>

#include "tests/simcuda/driver/call.h"
#include "tests/simcuda/driver/failures.h"

extern "C" {
struct Export {
  const char* name;
  void* address;
};
extern const Export simcuda_exports[];
extern const unsigned long simcuda_export_count;
extern simcuda::Observer simcuda_observer;
simcuda::Observer simcuda_observer = nullptr;
}

namespace simcuda {
namespace {

void observe(Observer observer) {
  simcuda_observer = observer;
  if (observer != nullptr) simcuda_failures_armed = 1;
}

const char* name_of(unsigned index) { return index < simcuda_export_count ? simcuda_exports[index].name : nullptr; }

void* address_of(const char* name) {
  for (unsigned long i = 0; i < simcuda_export_count; ++i) {
    if (std::strcmp(simcuda_exports[i].name, name) == 0) return simcuda_exports[i].address;
  }
  return nullptr;
}

constexpr ObserverTable kTable = {sizeof(ObserverTable), observe, name_of, address_of};

}  // namespace
}  // namespace simcuda

SIM(cuGetExportTable)(const void** table, const CUuuid* id) {
  if (table == nullptr || id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *table = nullptr;
  if (std::memcmp(id->bytes, "simcuda observer", sizeof(id->bytes)) != 0) return CUDA_ERROR_NOT_FOUND;
  *table = &simcuda::kTable;
  return CUDA_SUCCESS;
}
