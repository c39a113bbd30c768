// Functions that return early when a CUDA call fails, one for each argument; the tests make calls fail with
// CULPRIT_FAIL. Each mode's comment says what happens to its 11001 bytes.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <string.h>

#include "tests/subjects/check.h"

static char bytes[64];
static void* kept[32];
static int kept_count = 0;

SUBJECT_FUNCTION int copy_to(void* to) { return cudaMemcpy(to, bytes, sizeof(bytes), cudaMemcpyHostToDevice); }

SUBJECT_FUNCTION void* make_buffer() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

// Left behind when the second allocation fails.
SUBJECT_FUNCTION int two_buffers() {
  void* first = nullptr;
  void* second = nullptr;
  int code = cudaMalloc(&first, 11001);
  if (code != 0) return code;
  code = cudaMalloc(&second, 22002);
  if (code != 0) return code;
  CHECKED(cudaFree(second));
  return cudaFree(first);
}

// Left behind when the copy fails, in a callee.
SUBJECT_FUNCTION int copy_in_callee() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  int code = copy_to(pointer);
  if (code != 0) return code;
  return cudaFree(pointer);
}

// Made by one callee, and left behind when another one fails.
SUBJECT_FUNCTION int made_in_callee() {
  void* pointer = make_buffer();
  int code = copy_to(pointer);
  if (code != 0) return code;
  return cudaFree(pointer);
}

// Left behind whatever this call returns.
SUBJECT_FUNCTION int each_call(const char* what) {
  void* pointer = nullptr;
  cudaStream_t stream;
  cudaEvent_t event;
  CHECKED(cudaStreamCreate(&stream));
  CHECKED(cudaEventCreate(&event));
  CHECKED(cudaMalloc(&pointer, 11001));
  int code = 0;
  if (strcmp(what, "copy-async") == 0)
    code = cudaMemcpyAsync(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice, stream);
  if (strcmp(what, "copy-back") == 0) code = cudaMemcpy(bytes, pointer, sizeof(bytes), cudaMemcpyDeviceToHost);
  if (strcmp(what, "memset") == 0) code = cudaMemset(pointer, 0, sizeof(bytes));
  if (strcmp(what, "synchronize") == 0) code = cudaDeviceSynchronize();
  if (strcmp(what, "stream-synchronize") == 0) code = cudaStreamSynchronize(stream);
  if (strcmp(what, "event-record") == 0) code = cudaEventRecord(event, stream);
  if (strcmp(what, "stream-wait") == 0) code = cudaStreamWaitEvent(stream, event, 0);
  if (strcmp(what, "event-create") == 0) {
    cudaEvent_t another;
    code = cudaEventCreate(&another);
  }
  if (strcmp(what, "allocate-async") == 0) {
    void* other = nullptr;
    code = cudaMallocAsync(&other, 22002, stream);
  }
  if (strcmp(what, "allocate-host") == 0) {
    void* other = nullptr;
    code = cudaMallocHost(&other, 22002);
  }
  if (strcmp(what, "elapsed") == 0) {  // "not ready" is not a failure
    float milliseconds = 0;
    code = cudaEventElapsedTime(&milliseconds, event, event);
  }
  return code;
}

// Never freed; the copy succeeds at its second or third try, so that its failure is not the reason.
SUBJECT_FUNCTION void retried_copy() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice) == cudaSuccess) break;
  }
}

// retried_copy() without a loop: two call sites in one function.
SUBJECT_FUNCTION void retried_copy_elsewhere() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  if (cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice) == cudaSuccess) return;
  if (cudaGetLastError() == cudaSuccess) exit(3);
  CHECKED(cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice));
}

SUBJECT_FUNCTION int try_allocation(void** pointer) { return cudaMalloc(pointer, 22002); }

// Never freed; the second buffer comes at the second try, from another place.
SUBJECT_FUNCTION void retried_allocation() {
  void* first = nullptr;
  void* second = nullptr;
  CHECKED(cudaMalloc(&first, 11001));
  if (cudaMalloc(&second, 22002) != cudaSuccess) CHECKED(try_allocation(&second));
  CHECKED(cudaFree(second));
}

// Two of 11001 bytes: both were there when the third failed, which came at the second try.
SUBJECT_FUNCTION void retried_same_place() {
  void* pointers[3] = {};
  for (void*& pointer : pointers) {
    while (cudaMalloc(&pointer, 11001) != cudaSuccess) {
    }
  }
  CHECKED(cudaFree(pointers[2]));
}

// Left behind by the call whose copy fails; the next call succeeds at the same place, which is no retry.
SUBJECT_FUNCTION int one_step() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  if (cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  return cudaFree(pointer);
}

// Handed on and never freed, except by the call whose copy fails.
SUBJECT_FUNCTION int one_handed_on() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  if (cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice) != cudaSuccess) return 1;
  kept[kept_count++] = reinterpret_cast<void*>(~reinterpret_cast<size_t>(pointer));  // no holder finds it
  return 0;
}

// Never freed; made after the failure.
SUBJECT_FUNCTION int after_failure() {
  void* pointer = nullptr;
  void* other = nullptr;
  CHECKED(cudaMalloc(&other, 64));
  copy_to(other);
  CHECKED(cudaFree(other));
  CHECKED(cudaMalloc(&pointer, 11001));
  return 0;
}

SUBJECT_FUNCTION void* fail_here(void*) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 64));
  copy_to(pointer);
  CHECKED(cudaFree(pointer));
  return nullptr;
}

SUBJECT_FUNCTION void* leave_in_thread(void*) {
  if (copy_in_callee() == 0) exit(3);
  return nullptr;
}

void run_thread(void* (*function)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, function, nullptr) != 0) exit(3);
  pthread_join(thread, nullptr);
}

// Never freed; another thread's copy fails.
SUBJECT_FUNCTION void other_thread_fails() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  run_thread(fail_here);
}

// Three of 11001 bytes, one a level; all are left behind when the innermost copy fails.
SUBJECT_FUNCTION int recurse(int level) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  int code = level == 1 ? copy_to(pointer) : recurse(level - 1);
  if (code != 0) return code;
  return cudaFree(pointer);
}

// The first failure is the cause; every later call returns the same code.
SUBJECT_FUNCTION int lasting() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  int code = copy_to(pointer);
  if (code != 0) {
    cudaDeviceSynchronize();
    return code;
  }
  return cudaFree(pointer);
}

int main(int count, char** words) {
  const char* mode = count > 1 ? words[1] : "";
  CHECKED(cudaFree(nullptr));
  if (strcmp(mode, "two-buffers") == 0) {
    if (two_buffers() == 0) return 3;
  } else if (strcmp(mode, "callee") == 0) {
    if (copy_in_callee() == 0) return 3;
  } else if (strcmp(mode, "made-in-callee") == 0) {
    if (made_in_callee() == 0) return 3;
  } else if (strcmp(mode, "each") == 0) {
    if (each_call(words[2]) == 0) return 3;
  } else if (strcmp(mode, "retried-copy") == 0) {
    retried_copy();
  } else if (strcmp(mode, "retried-elsewhere") == 0) {
    retried_copy_elsewhere();
  } else if (strcmp(mode, "retried-allocation") == 0) {
    retried_allocation();
  } else if (strcmp(mode, "retried-same-place") == 0) {
    retried_same_place();
  } else if (strcmp(mode, "steps") == 0) {
    int failed = 0;
    for (int i = 0; i < 3; ++i) failed += one_step();
    if (failed != 1) return 3;
  } else if (strcmp(mode, "handed-on") == 0) {
    int failed = 0;
    for (int i = 0; i < 10; ++i) failed += one_handed_on();
    if (failed != 1) return 3;
  } else if (strcmp(mode, "after") == 0) {
    after_failure();
  } else if (strcmp(mode, "other-thread") == 0) {
    other_thread_fails();
  } else if (strcmp(mode, "in-thread") == 0) {
    run_thread(leave_in_thread);
  } else if (strcmp(mode, "recursion") == 0) {
    if (recurse(3) == 0) return 3;
  } else if (strcmp(mode, "lasting") == 0) {
    if (lasting() == 0) return 3;
  } else if (strcmp(mode, "main") == 0) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 11001));
    if (cudaMemcpy(pointer, bytes, sizeof(bytes), cudaMemcpyHostToDevice) == cudaSuccess) return 3;
  } else {
    fprintf(stderr, "no such mode: %s\n", mode);
    return 3;
  }
  return 0;
}
