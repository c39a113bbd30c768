// Real-time threads share a processor with an ordinary thread that is always inside CUDA calls, and must wait for at
// most 100 ms. Prints "not permitted" where SCHED_FIFO is not permitted.
#include <pthread.h>
#include <sched.h>

#include "tests/guest/programs/guest.h"

namespace {

bool stop;

void stay_on_one_processor() {
  cpu_set_t all;
  HOLDS(sched_getaffinity(0, sizeof all, &all) == 0);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    HOLDS(sched_setaffinity(0, sizeof one, &one) == 0);
    return;
  }
}

void* ordinary(void*) {
  uint64_t seed = 88172645463325252ULL;
  guest::use_context();
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    guest::pair_by_path(guest::next_random(&seed), 24);
    CUevent event = nullptr;
    CHECKED(cuEventCreate(&event, 0));
    CHECKED(cuEventDestroy(event));
  }
  return nullptr;
}

bool become_real_time() {
  const sched_param high = {10};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &high) == 0;
}

}  // namespace

int main() {
  stay_on_one_processor();
  guest::start_cuda();
  pthread_t threads[2];
  for (pthread_t& thread : threads) CHECKED(pthread_create(&thread, nullptr, ordinary, nullptr));
  double longest = 0;
  bool permitted = become_real_time();
  uint64_t seed = 362436069;
  for (const guest::Storm storm; permitted && storm.goes_on();) {
    usleep(300);
    const double start = guest::now();
    guest::pair_by_path(guest::next_random(&seed), 24);
    const double waited = guest::now() - start;
    if (waited > longest) longest = waited;
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  guest::figure("longest-microseconds", static_cast<long long>(longest * 1e6));
  guest::say("%s", !permitted      ? "not permitted"
                   : longest < 0.1 ? "no call took 100 ms"
                                   : "a call took 100 ms or longer");
  return 0;
}
