#include "tests/simcuda/driver/free_calls.h"

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace simcuda {
namespace {

constexpr std::uint64_t kBase = 0x500000000000;  // no device and no heap has addresses here
constexpr std::uint64_t kThreadRange = std::uint64_t{1} << 36;
constexpr std::uint64_t kThreads = 256;  // more threads share ranges; measurements have fewer
constexpr std::uint64_t kAlignment = 512;

struct ThreadRange {
  CUdeviceptr last_freed;
  CUdeviceptr next;  // 0: no range yet
};
thread_local ThreadRange range __attribute__((tls_model("initial-exec")));

std::atomic<std::uint64_t> threads{0};

bool switched_on() {
  const char* text = getenv("SIMCUDA_FREE_CALLS");
  return text != nullptr && *text == '1';
}

}  // namespace

const bool free_calls = switched_on();

CUresult allocate_for_free(CUdeviceptr* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0 || bytes > kThreadRange) return CUDA_ERROR_INVALID_VALUE;
  CUdeviceptr address = range.last_freed;
  if (address != 0) {
    range.last_freed = 0;
  } else {
    if (range.next == 0) range.next = kBase + threads.fetch_add(1) % kThreads * kThreadRange;
    address = range.next;
    range.next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult free_for_free(CUdeviceptr address) {
  if (address < kBase || address >= kBase + kThreads * kThreadRange) return CUDA_ERROR_INVALID_VALUE;
  range.last_freed = address;
  return CUDA_SUCCESS;
}

}  // namespace simcuda
