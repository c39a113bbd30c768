// The workloads of the benchmark that call the driver directly, mostly on the simulated driver with calls that cost
// nothing (SIMCUDA_FREE_CALLS=1), so that nearly all of the time is the library's:
//
//   async     cuMemAllocAsync + cuMemFreeAsync, 4 KiB       async64   like async, from 64 stacks in turn
//   asyncN    async on --threads threads, against one       init      cuInit only
//   live      keeps --live allocations from 64 stacks and prints live_anon, bytes of private memory
#include <cuda.h>

#include <cstdio>

#include "tests/bench/measure.h"

using bench::check;
using bench::Options;

namespace {

constexpr std::size_t kBytes = 4096;

__attribute__((noinline)) void async_pair(CUstream stream) {
  CUdeviceptr memory = 0;
  check(cuMemAllocAsync(&memory, kBytes, stream), "allocate");
  check(cuMemFreeAsync(memory, stream), "free");
}

void async_pairs(long calls, CUstream stream) {
  for (long i = 0; i < calls; ++i) async_pair(stream);
}

void async64(const Options& options, CUstream stream) {
  const std::function<void()> pair = [&] { async_pair(stream); };
  bench::measure(options, "async64", 20000, [&](long calls) {
    for (long i = 0; i < calls; ++i) bench::along_path(static_cast<unsigned>(i) % bench::kPaths, pair);
  });
}

void async_threads(const Options& options, CUcontext context) {
  const auto body = [&](int, long calls) {
    check(cuCtxSetCurrent(context), "make the context current");
    async_pairs(calls, nullptr);
  };
  bench::measure_threads(options, "asyncN", options.threads, 200000, body, true);
}

void live(const Options& options, CUstream stream) {
  bench::deep([&] {
    for (long i = 0; i < options.live; ++i) {
      bench::along_path(static_cast<unsigned>(i / 1000) % bench::kPaths, [&] {
        CUdeviceptr memory = 0;
        check(cuMemAllocAsync(&memory, 256, stream), "allocate");
      });
    }
  });
  bench::print("live_anon", bench::status_bytes("RssAnon"));
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = bench::parse_options(argc, argv);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  check(cuInit(0), "initialize");
  if (options.rows == std::vector<std::string>{"init"}) return 0;
  check(cuDeviceGet(&device, 0), "find a device");
  check(cuDevicePrimaryCtxRetain(&context, device), "retain the primary context");
  check(cuCtxSetCurrent(context), "make the context current");
  check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "create a stream");
  for (const std::string& row : options.rows) {
    if (row == "async") {
      bench::measure(options, "async", 200000, [&](long calls) { async_pairs(calls, stream); });
    } else if (row == "async64") {
      async64(options, stream);
    } else if (row == "asyncN") {
      async_threads(options, context);
    } else if (row == "live") {
      live(options, stream);
    } else {
      std::fprintf(stderr, "bench_driver: no row %s\n", row.c_str());
      return 2;
    }
  }
  check(cuStreamDestroy(stream), "destroy the stream");
  check(cuDevicePrimaryCtxRelease(device), "release the primary context");
  return 0;
}
