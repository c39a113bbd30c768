// Events, streams or stream-ordered memory ("event", "stream", "memory", "large": 64 MiB each): made and ended over and
// over (churn), ended out of order and by another thread, with five left at the end; or (refused) one that the driver
// refuses to end, as SIMCUDA_FAIL=cuEventDestroy_v2:303:700 has it, after 302 others. With "retry" that one is ended at
// last. Or (twice) one that the program ends twice, after 302 others.
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
static constexpr Kind kMemory = {[](Handle* handle) { return cudaMallocAsync(handle, 4096, nullptr); },
                                 [](Handle handle) { return cudaFreeAsync(handle, nullptr); }};
static constexpr Kind kLarge = {[](Handle* handle) { return cudaMallocAsync(handle, 64 << 20, nullptr); }, kMemory.end};
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

// So many that the thread has left the general way, which the first ones take.
constexpr int kBefore = 302;

static void refused(bool retry) {
  make_and_end(kBefore);
  Handle handle = end_in_vain();
  make_and_end(5);
  if (retry) CHECKED(kind.end(handle));
}

SUBJECT_FUNCTION void end_again(Handle handle) { EXPECTED(cudaErrorInvalidValue, kind.end(handle)); }

static void twice() {
  make_and_end(kBefore);
  Handle handle = make_here();
  CHECKED(kind.end(handle));
  end_again(handle);
}

static Kind kind_of(const char* name) {
  if (std::strcmp(name, "memory") == 0) return kMemory;
  if (std::strcmp(name, "large") == 0) return kLarge;
  return std::strcmp(name, "event") == 0 ? kEvent : kStream;
}

int main(int count, char** arguments) {
  kind = kind_of(arguments[1]);
  const char* way = arguments[2];
  if (std::strcmp(way, "churn") == 0) {
    churn();
  } else if (std::strcmp(way, "twice") == 0) {
    twice();
  } else {
    refused(count > 3);
  }
  return 0;
}
