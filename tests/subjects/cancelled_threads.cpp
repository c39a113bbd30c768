// Threads that end by pthread_exit and by cancellation, which unwind their stacks, after having allocated. With the
// argument "pending" the cancellation is pending when the thread makes the program's first CUDA call: the library must
// not add a cancellation point in a hook (by opening its dump, say).
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <unistd.h>

#include "tests/subjects/check.h"

struct Said {
  const char* what;
  ~Said() { puts(what); }
};

SUBJECT_FUNCTION void leak_in_thread() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
}

static void* exit_early(void*) {
  Said said{"unwound by pthread_exit"};
  leak_in_thread();
  pthread_exit(nullptr);
}

static void* get_cancelled(void* pending) {
  Said said{"unwound by cancellation"};
  if (pending != nullptr) pthread_cancel(pthread_self());
  leak_in_thread();
  if (pending == nullptr) pthread_cancel(pthread_self());
  for (;;) pause();
}

int main(int count, char**) {
  pthread_t thread;
  void* result = nullptr;
  pthread_create(&thread, nullptr, get_cancelled, count > 1 ? &result : nullptr);
  pthread_join(thread, &result);
  if (result != PTHREAD_CANCELED) return 3;
  pthread_create(&thread, nullptr, exit_early, nullptr);
  return pthread_join(thread, nullptr);
}
