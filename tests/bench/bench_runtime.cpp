// The workloads of the benchmark that call the CUDA runtime:
//
//   async     cudaMallocAsync + cudaFreeAsync, 4 KiB, warm pool        async64   like async, from 64 stacks in turn
//   asyncN    async on --threads threads, each with its stream         malloc    cudaMalloc + cudaFree, 4 KiB
//   large     cudaMallocAsync + cudaFreeAsync, 64 MiB: each call changes the device's sum by that size
//   launch    an empty kernel        memcpy   cudaMemcpyAsync of 4 KiB from pinned memory
//   event     cudaEventCreate + cudaEventDestroy                       stream    cudaStreamCreate + cudaStreamDestroy
//   first     the first call only, cudaFree(0)                         beside    the same in a program with three
//   threads throw     throw + catch, with --live allocations of this thread from ten stacks
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/bench/measure.h"
#include "tests/support/empty_kernel.h"

using bench::check;
using bench::Options;

namespace {

constexpr std::size_t kBytes = 4096;
constexpr std::size_t kLargeBytes = std::size_t{64} << 20;

// Otherwise the pool would return its memory to the system at every synchronization, which is what the row malloc
// measures.
void keep_pool_warm() {
  cudaMemPool_t pool = nullptr;
  std::uint64_t threshold = UINT64_MAX;
  check(cudaDeviceGetDefaultMemPool(&pool, 0), "get the memory pool");
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold), "set the pool's threshold");
}

__attribute__((noinline)) void async_pair(cudaStream_t stream, std::size_t bytes = kBytes) {
  void* memory = nullptr;
  check(cudaMallocAsync(&memory, bytes, stream), "allocate");
  check(cudaFreeAsync(memory, stream), "free");
}

void async_pairs(long calls, cudaStream_t stream) {
  for (long i = 0; i < calls; ++i) async_pair(stream);
}

void async(const Options& options, cudaStream_t stream) {
  bench::measure(
      options, "async", 20000, [&](long calls) { async_pairs(calls, stream); },
      [&] { check(cudaStreamSynchronize(stream), "synchronize"); });
}

void large(const Options& options, cudaStream_t stream) {
  bench::measure(
      options, "large", 20000,
      [&](long calls) {
        for (long i = 0; i < calls; ++i) async_pair(stream, kLargeBytes);
      },
      [&] { check(cudaStreamSynchronize(stream), "synchronize"); });
}

void async64(const Options& options, cudaStream_t stream) {
  const std::function<void()> pair = [&] { async_pair(stream); };
  bench::measure(
      options, "async64", 20000,
      [&](long calls) {
        for (long i = 0; i < calls; ++i) bench::along_path(static_cast<unsigned>(i) % bench::kPaths, pair);
      },
      [&] { check(cudaStreamSynchronize(stream), "synchronize"); });
}

void async_threads(const Options& options) {
  std::vector<cudaStream_t> streams(static_cast<std::size_t>(options.threads));
  for (cudaStream_t& stream : streams) check(cudaStreamCreate(&stream), "create a stream");
  bench::measure_threads(options, "asyncN", options.threads, 10000, [&](int thread, long calls) {
    async_pairs(calls, streams[static_cast<std::size_t>(thread)]);
  });
  for (cudaStream_t stream : streams) check(cudaStreamDestroy(stream), "destroy a stream");
}

void malloc_free(const Options& options) {
  bench::measure(options, "malloc", 400, [](long calls) {
    for (long i = 0; i < calls; ++i) {
      void* memory = nullptr;
      check(cudaMalloc(&memory, kBytes), "allocate");
      check(cudaFree(memory), "free");
    }
  });
}

// Launches and copies are timed in batches that fit into the driver's queue: a full queue would measure the GPU.
constexpr long kQueue = 256;

void launch(const Options& options, cudaStream_t stream) {
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  check(cudaLibraryLoadData(&library, kEmptyKernel, nullptr, nullptr, 0, nullptr, nullptr, 0), "load the kernel");
  check(cudaLibraryGetKernel(&kernel, library, "empty_kernel"), "find the kernel");
  Options many = options;
  many.rounds *= 8;
  bench::measure(
      many, "launch", kQueue,
      [&](long calls) {
        for (long i = 0; i < calls; ++i) {
          check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), nullptr, 0, stream),
                "launch");
        }
      },
      [&] { check(cudaStreamSynchronize(stream), "synchronize"); });
  check(cudaLibraryUnload(library), "unload the kernel");
}

void copy(const Options& options, cudaStream_t stream) {
  void* host = nullptr;
  void* memory = nullptr;
  check(cudaMallocHost(&host, kBytes), "allocate pinned memory");
  check(cudaMalloc(&memory, kBytes), "allocate");
  Options many = options;
  many.rounds *= 8;
  bench::measure(
      many, "memcpy", kQueue,
      [&](long calls) {
        for (long i = 0; i < calls; ++i)
          check(cudaMemcpyAsync(memory, host, kBytes, cudaMemcpyHostToDevice, stream), "copy");
      },
      [&] { check(cudaStreamSynchronize(stream), "synchronize"); });
  check(cudaFree(memory), "free");
  check(cudaFreeHost(host), "free pinned memory");
}

void events(const Options& options) {
  bench::measure(options, "event", 10000, [](long calls) {
    for (long i = 0; i < calls; ++i) {
      cudaEvent_t event = nullptr;
      check(cudaEventCreate(&event), "create an event");
      check(cudaEventDestroy(event), "destroy an event");
    }
  });
}

void streams(const Options& options) {
  bench::measure(options, "stream", 400, [](long calls) {
    for (long i = 0; i < calls; ++i) {
      cudaStream_t stream = nullptr;
      check(cudaStreamCreate(&stream), "create a stream");
      check(cudaStreamDestroy(stream), "destroy a stream");
    }
  });
}

__attribute__((noinline)) int throw_below(int level) {
  if (level == 0) throw std::runtime_error("the residual is NaN");
  return throw_below(level - 1) + 1;
}

void throw_catch(const Options& options) {
  std::vector<void*> live(static_cast<std::size_t>(options.live));
  for (std::size_t i = 0; i < live.size(); ++i) {
    bench::along_path(static_cast<unsigned>(i % 10), [&] { check(cudaMalloc(&live[i], kBytes), "allocate"); });
  }
  bench::measure(options, "throw", 100000, [](long calls) {
    for (long i = 0; i < calls; ++i) {
      try {
        throw_below(4);
      } catch (const std::runtime_error&) {
      }
    }
  });
  for (void* memory : live) check(cudaFree(memory), "free");
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = bench::parse_options(argc, argv);
  const bool beside = options.rows == std::vector<std::string>{"beside"};
  for (int i = 0; beside && i < 2; ++i)
    std::thread([] { std::this_thread::sleep_for(std::chrono::hours(1)); }).detach();
  check(cudaFree(nullptr), "initialize");
  if (beside || options.rows == std::vector<std::string>{"first"}) return 0;
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "create a stream");
  keep_pool_warm();
  for (const std::string& row : options.rows) {
    if (row == "async") {
      async(options, stream);
    } else if (row == "large") {
      large(options, stream);
    } else if (row == "async64") {
      async64(options, stream);
    } else if (row == "asyncN") {
      async_threads(options);
    } else if (row == "malloc") {
      malloc_free(options);
    } else if (row == "launch") {
      launch(options, stream);
    } else if (row == "memcpy") {
      copy(options, stream);
    } else if (row == "event") {
      events(options);
    } else if (row == "stream") {
      streams(options);
    } else if (row == "throw") {
      throw_catch(options);
    } else {
      std::fprintf(stderr, "bench_runtime: no row %s\n", row.c_str());
      return 2;
    }
  }
  check(cudaStreamDestroy(stream), "destroy the stream");
  return 0;
}
