// A Catch2 test program with culprit's listener. One test case leaks, one leaks in one of its sections, one fails
// anyway.
// Catch2's main() is in another file, as in many projects.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>

#include "interpose/include/culprit/catch2.h"

#include <cuda_runtime_api.h>

__attribute__((noinline)) static void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, bytes) == cudaSuccess);
  return pointer;
}

TEST_CASE("clean") { CHECK(cudaFree(allocate(100)) == cudaSuccess); }

TEST_CASE("leaks") { allocate(11001); }

TEST_CASE("one section leaks") {
  void* buffer = allocate(200);
  SECTION("clean") { CHECK(true); }
  SECTION("leaky") { allocate(22002); }
  CHECK(cudaFree(buffer) == cudaSuccess);
}

TEST_CASE("fails anyway") {
  allocate(33003);
  CHECK(1 == 2);
}
