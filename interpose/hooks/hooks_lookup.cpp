// cuGetProcAddress: the address that the driver returns is replaced by the hook of that address.
//
// By address, not by name: the version and default-stream variant of a name depend on the requested CUDA version and
// flags, and the driver has chosen already (each result is one of libcuda's exports).
#include "interpose/driver/driver.h"
#include "interpose/events/driver_lives.h"
#include "interpose/hooks/hooks.h"
#include "interpose/process/process.h"

namespace culprit {
namespace {

// `own` is libcuda's own result; it is requested only when the result is not in libcuda.
template <typename AskDriver>
void* redirect(void* answer, AskDriver ask_driver) {
  HookedFunction function;
  const bool hooked = find_hooked(answer, &function);
  keep_lives_apart();
  if (hooked) return hook_address(function);
  if (lies_in_driver(answer)) return answer;
  // Another interposer's function: its row is that of libcuda's own result, and our hook calls it.
  void* own = ask_driver();
  if (own == nullptr || own == answer || !find_hooked(own, &function) || function.thunks != 0 ||
      answer == hook_address(function))
    return answer;
  set_next_address(function.api, answer);
  return hook_address(function);
}

}  // namespace

namespace custom {

CUresult cuGetProcAddress(decltype(&::cuGetProcAddress) call, const char* symbol, void** pfn, int cudaVersion,
                          cuuint64_t flags) {
  CUresult status = call(symbol, pfn, cudaVersion, flags);
  if (status != CUDA_SUCCESS || pfn == nullptr || *pfn == nullptr) return status;
  *pfn = redirect(*pfn, [&] {
    void* own = nullptr;
    const bool found = driver().cuGetProcAddress(symbol, &own, cudaVersion, flags) == CUDA_SUCCESS;
    return found ? own : nullptr;
  });
  return status;
}

CUresult cuGetProcAddress_v2(decltype(&::cuGetProcAddress_v2) call, const char* symbol, void** pfn, int cudaVersion,
                             cuuint64_t flags, CUdriverProcAddressQueryResult* symbolStatus) {
  CUresult status = call(symbol, pfn, cudaVersion, flags, symbolStatus);
  if (status != CUDA_SUCCESS || pfn == nullptr || *pfn == nullptr) return status;
  *pfn = redirect(*pfn, [&] {
    void* own = nullptr;
    CUdriverProcAddressQueryResult result;
    const bool found = driver().cuGetProcAddress_v2(symbol, &own, cudaVersion, flags, &result) == CUDA_SUCCESS;
    return found ? own : nullptr;
  });
  return status;
}

}  // namespace custom
}  // namespace culprit
