// main() ends by pthread_exit() while another thread goes on, so that the main thread is a zombie. "before": the first
// CUDA call is made in main, "after": it is made when main has ended, "last": the main thread itself is the last one.
// libc calls exit(0) in the last thread. Variables with destructors then free all memory but 11001 bytes, which stay in
// a global, and 20001 bytes, which a destructor allocates. "live" prints "ready" when main has ended, waits for the
// end of stdin, and calls exit(0).
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/subjects/check.h"

void* g_held = nullptr;

namespace {

std::string how;

SUBJECT_FUNCTION void* allocate(size_t bytes) {
  void* memory = nullptr;
  CHECKED(cudaMalloc(&memory, bytes));
  return memory;
}

SUBJECT_FUNCTION void leak_in_destructor() {
  void* volatile lost = allocate(20001);
  (void)lost;
}

// The runtime may have begun to shut down: then the free is late and no leak.
void free_at_end(void* memory) {
  const cudaError_t status = cudaFree(memory);
  if (status != cudaErrorCudartUnloading) CHECKED(status);
}

struct Cache {
  std::vector<void*> memory;
  bool allocates = false;
  ~Cache() {
    for (void* one : memory) free_at_end(one);
    if (allocates) leak_in_destructor();
  }
};

Cache g_cache;

// Made after the first CUDA call, so that its destructor runs before the handler that this call registered.
Cache& late_cache() {
  static Cache cache;
  return cache;
}

SUBJECT_FUNCTION void fill_caches() {
  for (int i = 0; i < 100; ++i) {
    g_cache.memory.push_back(allocate(30001));
    late_cache().memory.push_back(allocate(40001));
  }
  late_cache().allocates = true;
}

bool main_is_zombie() {
  FILE* file = fopen("/proc/self/stat", "r");
  if (file == nullptr) return false;
  char text[512] = {};
  const bool read_it = fgets(text, sizeof(text), file) != nullptr;
  fclose(file);
  const char* name_end = read_it ? strrchr(text, ')') : nullptr;
  return name_end != nullptr && name_end[2] == 'Z';
}

SUBJECT_FUNCTION void leak_here() { g_held = allocate(11001); }

void* go_on(void*) {
  prctl(PR_SET_NAME, "goes-on");
  while (how != "last" && !main_is_zombie()) usleep(1000);
  leak_here();
  fill_caches();
  if (how == "live") {
    puts("ready");
    fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    exit(0);
  }
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  how = argv[1];
  if (how == "before") CHECKED(cudaFree(allocate(50001)));
  pthread_t thread;
  if (how == "last") {
    go_on(nullptr);
  } else {
    EXPECTED(0, pthread_create(&thread, nullptr, go_on, nullptr));
  }
  pthread_exit(nullptr);
}
