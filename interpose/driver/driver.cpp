#include "interpose/driver/driver.h"

#include <cstring>

#include "interpose/base/assertion.h"
#include "interpose/base/placement.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/prepared.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

namespace {
const Driver kNoDriver = {};
}

const Driver& driver() {
  // The driver may wait for another thread of the program, which waits for the lock.
  CULPRIT_ASSERT(holds_no_spin_lock());
  const LoadedDriver* current = current_driver();
  return current == nullptr || !may_call_driver() ? kNoDriver : current->calls;
}

CULPRIT_HOT bool driver_ready() {
  if (current_driver() != nullptr) return true;
  ensure_prepared();
  return find_first_driver();
}

bool driver_range(std::uint64_t* begin, std::uint64_t* end) {
  if (!driver_ready()) return false;
  const LoadedDriver* first = culprit_first_driver;
  if (first == nullptr) return false;
  *begin = first->module.begin;
  *end = first->module.end;
  return true;
}

bool is_driver_handle(const void* handle) {
  if (!driver_ready() || handle == nullptr || handle == reinterpret_cast<void*>(-1)) return false;
  // glibc's handles are its link_map pointers; l_addr is the load bias (link.h).
  const std::uint64_t bias = static_cast<const struct link_map*>(handle)->l_addr;
  return any_driver([&](const LoadedDriver& driver) { return driver.module.load_bias == bias; });
}

CULPRIT_LOADING bool cuda_is_loaded() {
  // By name: NVIDIA's libraries may lack what any_module() needs.
  return any_loaded_module([](const struct dl_phdr_info& info) {
    const char* path = info.dlpi_name != nullptr ? info.dlpi_name : "";
    const char* slash = std::strrchr(path, '/');
    const char* name = slash != nullptr ? slash + 1 : path;
    return std::strncmp(name, "libcuda.so", 10) == 0 || std::strncmp(name, "libcudart", 9) == 0;
  });
}

RetainedPrimary::RetainedPrimary(CUdevice device) : device_(device) {
  const Driver& call = driver();
  unsigned flags = 0;
  int active = 0;
  if (!call.cuDevicePrimaryCtxRelease_v2.is_there() && !call.cuDevicePrimaryCtxRelease.is_there()) return;
  if (call.cuDevicePrimaryCtxGetState(device, &flags, &active) != CUDA_SUCCESS || active == 0) return;
  if (call.cuDevicePrimaryCtxRetain(&context_, device) != CUDA_SUCCESS) context_ = nullptr;
}

RetainedPrimary::~RetainedPrimary() {
  if (context_ == nullptr) return;
  const Driver& call = driver();
  if (call.cuDevicePrimaryCtxRelease_v2.is_there()) {
    call.cuDevicePrimaryCtxRelease_v2(device_);
  } else {
    call.cuDevicePrimaryCtxRelease(device_);
  }
}

}  // namespace culprit
