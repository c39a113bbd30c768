// Three threads call CUDA until standard input ends, while culprit attaches and detaches. The program prints "ready" at
// its start.
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

bool stop;

void* work(void* number) {
  uint64_t seed = reinterpret_cast<uint64_t>(number) + 88172645463325252ULL;
  guest::use_context();
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    guest::pair_by_path(guest::next_random(&seed), 8);
    try {
      if (seed % 64 == 0) throw 1;
    } catch (int) {
    }
  }
  return nullptr;
}

}  // namespace

int main() {
  guest::start_cuda();
  pthread_t threads[3];
  for (uint64_t i = 0; i < 3; ++i) CHECKED(pthread_create(&threads[i], nullptr, work, reinterpret_cast<void*>(i)));
  guest::say("ready");
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  guest::say("all threads ended");
  return 7;
}
