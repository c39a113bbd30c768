// CUDA events: made and ended over and over (churn), ended out of order and by another thread, with five left at the
// end; or (refused) one that the driver refuses to destroy, SIMCUDA_FAIL=cuEventDestroy_v2:3:700, with others made and
// ended at the same place before, between and after. With "retry" that one is destroyed at the end, with success.
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION cudaEvent_t make_here() {
  cudaEvent_t event = nullptr;
  CHECKED(cudaEventCreate(&event));
  return event;
}

SUBJECT_FUNCTION void make_and_end(int times) {
  for (int i = 0; i < times; ++i) CHECKED(cudaEventDestroy(make_here()));
}

SUBJECT_FUNCTION void leave_here(int count) {
  for (int i = 0; i < count; ++i) make_here();
}

static void churn() {
  make_and_end(1000);
  // The oldest first: seven at a time are more than a thread keeps to itself.
  for (int round = 0; round < 100; ++round) {
    std::vector<cudaEvent_t> events;
    for (int i = 0; i < 7; ++i) events.push_back(make_here());
    for (cudaEvent_t event : events) CHECKED(cudaEventDestroy(event));
  }
  std::vector<cudaEvent_t> handed_over;
  for (int i = 0; i < 3; ++i) handed_over.push_back(make_here());
  std::thread other([&] {
    make_and_end(10);
    for (cudaEvent_t event : handed_over) {
      CHECKED(cudaEventDestroy(event));
      make_and_end(10);
    }
    leave_here(2);
  });
  other.join();
  make_and_end(10);
  leave_here(3);
}

SUBJECT_FUNCTION cudaEvent_t end_in_vain() {
  cudaEvent_t event = make_here();
  EXPECTED(cudaErrorIllegalAddress, cudaEventDestroy(event));
  return event;
}

int main(int count, char** arguments) {
  if (std::strcmp(arguments[1], "churn") == 0) {
    churn();
    return 0;
  }
  make_and_end(2);
  cudaEvent_t event = end_in_vain();
  make_and_end(5);
  if (count > 2) CHECKED(cudaEventDestroy(event));
  return 0;
}
