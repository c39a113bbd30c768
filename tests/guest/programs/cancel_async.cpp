// Threads that are cancelled asynchronously inside CUDA calls, while other threads continue. The figure "live" is the
// number of leaked allocations.
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

bool ready;

void* walk(void* number) {
  guest::use_context();
  uint64_t path = reinterpret_cast<uint64_t>(number);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
  __atomic_store_n(&ready, true, __ATOMIC_RELEASE);
  for (;;) guest::pair_by_path(path++, 16);
}

}  // namespace

int main() {
  guest::start_cuda();
  uint64_t seed = 88172645463325252ULL;
  int cancelled = 0;
  for (const guest::Storm storm; (storm.goes_on() && guest::driver_has_room()) || cancelled < 200; ++cancelled) {
    pthread_t thread;
    ready = false;
    CHECKED(pthread_create(&thread, nullptr, walk, reinterpret_cast<void*>(guest::next_random(&seed))));
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) usleep(20);
    for (uint64_t i = guest::next_random(&seed) % 64; i > 0; --i) guest::pair_by_path(guest::next_random(&seed), 10);
    CHECKED(pthread_cancel(thread));
    void* result = nullptr;
    CHECKED(pthread_join(thread, &result));
    HOLDS(result == PTHREAD_CANCELED);
  }
  guest::allocate(11001);
  guest::figure("cancelled", cancelled);
  if (guestDriverLive != nullptr) guest::figure("live", static_cast<long long>(guestDriverLive()));
  guest::say("all threads were cancelled");
  return 0;
}
