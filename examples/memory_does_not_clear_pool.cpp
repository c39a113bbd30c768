// Question: "I free everything with cudaFreeAsync, but nvidia-smi's figure does not go down. Is that a leak?"
//
// No: the stream-ordered allocator returns freed memory to its POOL. The pool keeps the memory for the next
// cudaMallocAsync, here because the program raised the pool's release threshold. cudaMemPoolTrimTo returns it to the
// system.
//
// True report: clean (the size of the default pool at exit is among the device's figures). With --forget one leak of
// 64 MiB in 2 allocations from queue_block.
//
// run:
// expect: clean
// run: --trim
// expect: clean
// run: --forget
// expect: leak bytes=67108864 count=2 function=queue_block api=cudaMallocAsync kind=stream-ordered
#include <cstdint>

#include "examples/check.h"

EXAMPLE_NOINLINE void* queue_block(size_t bytes, cudaStream_t stream) {
  void* block = nullptr;
  check(cudaMallocAsync(&block, bytes, stream), "allocate a block");  // leak-here
  return block;
}

EXAMPLE_NOINLINE void print_pool(const char* when, cudaMemPool_t pool) {
  std::uint64_t reserved = 0;
  std::uint64_t used = 0;
  check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &reserved), "ask what the pool holds");
  check(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used), "ask what of the pool is in use");
  std::printf("%-10s pool holds %4llu MiB, %4llu MiB of it in use\n", when,
              static_cast<unsigned long long>(reserved >> 20), static_cast<unsigned long long>(used >> 20));
}

int main(int argc, char** argv) {
  constexpr int kBlocks = 8;
  constexpr size_t kBlockBytes = size_t{32} << 20;
  cudaMemPool_t pool = nullptr;
  check(cudaDeviceGetDefaultMemPool(&pool, 0), "find the default pool");
  std::uint64_t keep_everything = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep_everything),
        "raise the release threshold");
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "create a stream");

  void* blocks[kBlocks];
  for (void*& block : blocks) block = queue_block(kBlockBytes, stream);
  check(cudaStreamSynchronize(stream), "wait for the stream");
  print_pool("allocated", pool);
  int forgotten = has_argument(argc, argv, "--forget") ? 2 : 0;
  for (int i = forgotten; i < kBlocks; ++i) check(cudaFreeAsync(blocks[i], stream), "free a block");
  check(cudaStreamSynchronize(stream), "wait for the stream");
  print_pool("freed", pool);
  if (has_argument(argc, argv, "--trim")) {
    check(cudaMemPoolTrimTo(pool, 0), "trim the pool");
    print_pool("trimmed", pool);
  }
  check(cudaStreamDestroy(stream), "destroy the stream");
  return 0;
}
