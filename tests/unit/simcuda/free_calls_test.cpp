// The simulated driver with SIMCUDA_FREE_CALLS=1, which ctest sets: its addresses behave like those of a warm pool.
#include <cuda.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/catch.h"

TEST_CASE("free calls: live addresses are distinct over all threads") {
  constexpr int kEach = 10000;
  std::vector<CUdeviceptr> made[4];
  std::vector<std::thread> threads;
  for (std::vector<CUdeviceptr>& mine : made) {
    threads.emplace_back([&mine] {
      for (int i = 0; i < kEach; ++i) {
        CUdeviceptr address = 0;
        if (cuMemAllocAsync(&address, 4096, nullptr) == CUDA_SUCCESS) mine.push_back(address);
        // Every third goes back and must not be handed out twice after that.
        if (i % 3 == 0 && cuMemFreeAsync(mine.back(), nullptr) == CUDA_SUCCESS) mine.pop_back();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<CUdeviceptr> all;
  std::size_t count = 0;
  for (const std::vector<CUdeviceptr>& mine : made) {
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  CHECK(count == 4 * (kEach - (kEach + 2) / 3));
  CHECK(all.size() == count);
}

TEST_CASE("free calls: the address that was freed last comes next") {
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  REQUIRE(cuMemAllocAsync(&first, 4096, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuMemFreeAsync(first, nullptr) == CUDA_SUCCESS);
  REQUIRE(cuMemAllocAsync(&second, 4096, nullptr) == CUDA_SUCCESS);
  CHECK(second == first);
  CHECK(cuMemFreeAsync(second, nullptr) == CUDA_SUCCESS);
}

TEST_CASE("free calls: wrong arguments are refused") {
  CUdeviceptr address = 0;
  CHECK(cuMemAllocAsync(nullptr, 4096, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocAsync(&address, 0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFreeAsync(0x702d6ac00000, nullptr) == CUDA_ERROR_INVALID_VALUE);
}
