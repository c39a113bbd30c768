// A GoogleTest program with culprit's listener. One test leaks, one fails for another reason; the memory of a suite
// belongs to no test.
#include "interpose/include/culprit/gtest.h"

#include <cuda_runtime_api.h>

__attribute__((noinline)) static void* allocate(std::size_t bytes) {
  void* pointer = nullptr;
  EXPECT_EQ(cudaSuccess, cudaMalloc(&pointer, bytes));
  return pointer;
}

class Suite : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { shared_ = allocate(5000); }
  static void TearDownTestSuite() { EXPECT_EQ(cudaSuccess, cudaFree(shared_)); }
  static void* shared_;
};
void* Suite::shared_ = nullptr;

TEST_F(Suite, Clean) { EXPECT_EQ(cudaSuccess, cudaFree(allocate(100))); }
TEST_F(Suite, Leaks) { allocate(11001); }
TEST(Other, FailsAnyway) {
  allocate(33003);
  EXPECT_EQ(1, 2);
}
