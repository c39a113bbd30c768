// A program whose malloc() calls CUDA, as if its memory were on the device, and which calls CUDA while its allocator's
// lock is held.
#include <dlfcn.h>
#include <pthread.h>

#include <string>
#include <vector>

#include "tests/guest/programs/guest.h"

extern "C" void* __libc_malloc(size_t);

namespace {

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // not recursive: an allocation inside a hook would deadlock
bool started;
unsigned long long calls;

void* thread_main(void* number) {
  guest::use_context();
  std::vector<std::string> texts;
  for (int i = 0; i < 500; ++i) {
    texts.push_back(std::string(100 + static_cast<size_t>(i), 'x'));
    guest::pair_by_path(reinterpret_cast<uint64_t>(number) * 500 + static_cast<uint64_t>(i), 12);
  }
  try {
    throw std::string(200, 'y');
  } catch (const std::string&) {
  }
  return nullptr;
}

}  // namespace

extern "C" void* malloc(size_t bytes) {
  pthread_mutex_lock(&lock);
  ++calls;
  CUcontext current = nullptr;
  if (started && cuCtxGetCurrent(&current) == CUDA_SUCCESS && current != nullptr) guest::pair(bytes + 1);
  void* memory = __libc_malloc(bytes);
  pthread_mutex_unlock(&lock);
  return memory;
}

int main() {
  guest::start_cuda();
  started = true;
  pthread_t threads[3];
  for (uint64_t i = 0; i < 3; ++i)
    CHECKED(pthread_create(&threads[i], nullptr, thread_main, reinterpret_cast<void*>(i)));
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  HOLDS(calls > 1000);
  guest::say("the allocator was never entered from within itself");
  return 0;
}
