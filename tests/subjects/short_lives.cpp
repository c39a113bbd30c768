// Events or streams ("event", "stream"): made and ended over and over (churn), ended out of order and by another
// thread, with five left at the end; or (refused) one that the driver refuses to destroy,
// SIMCUDA_FAIL=cuEventDestroy_v2:3:700, with others made and ended at the same place before, between and after. With
// "retry" that one is destroyed at the end, with success.
#include <cuda_runtime_api.h>

#include <cstring>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

using Handle = void*;
struct Kind {
  cudaError_t (*make)(Handle* handle);
  cudaError_t (*end)(Handle handle);
};
static constexpr Kind kEvent = {[](Handle* handle) { return cudaEventCreate(reinterpret_cast<cudaEvent_t*>(handle)); },
                                [](Handle handle) { return cudaEventDestroy(static_cast<cudaEvent_t>(handle)); }};
static constexpr Kind kStream = {
    [](Handle* handle) { return cudaStreamCreate(reinterpret_cast<cudaStream_t*>(handle)); },
    [](Handle handle) { return cudaStreamDestroy(static_cast<cudaStream_t>(handle)); }};
static Kind kind;

SUBJECT_FUNCTION Handle make_here() {
  Handle handle = nullptr;
  CHECKED(kind.make(&handle));
  return handle;
}

SUBJECT_FUNCTION void make_and_end(int times) {
  for (int i = 0; i < times; ++i) CHECKED(kind.end(make_here()));
}

SUBJECT_FUNCTION void leave_here(int count) {
  for (int i = 0; i < count; ++i) make_here();
}

static void churn() {
  make_and_end(1000);
  // The oldest first: seven at a time are more than a thread keeps to itself.
  for (int round = 0; round < 100; ++round) {
    std::vector<Handle> handles;
    for (int i = 0; i < 7; ++i) handles.push_back(make_here());
    for (Handle handle : handles) CHECKED(kind.end(handle));
  }
  std::vector<Handle> handed_over;
  for (int i = 0; i < 3; ++i) handed_over.push_back(make_here());
  std::thread other([&] {
    make_and_end(10);
    for (Handle handle : handed_over) {
      CHECKED(kind.end(handle));
      make_and_end(10);
    }
    leave_here(2);
  });
  other.join();
  make_and_end(10);
  leave_here(3);
}

SUBJECT_FUNCTION Handle end_in_vain() {
  Handle handle = make_here();
  EXPECTED(cudaErrorIllegalAddress, kind.end(handle));
  return handle;
}

static void refused(bool retry) {
  make_and_end(2);
  Handle handle = end_in_vain();
  make_and_end(5);
  if (retry) CHECKED(kind.end(handle));
}

int main(int count, char** arguments) {
  kind = std::strcmp(arguments[1], "event") == 0 ? kEvent : kStream;
  if (std::strcmp(arguments[2], "churn") == 0) {
    churn();
    return 0;
  }
  refused(count > 3);
  return 0;
}
