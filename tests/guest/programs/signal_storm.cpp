// Handlers call CUDA 20,000 times a second, while threads that also call CUDA start, throw and end.
#include <errno.h>
#include <pthread.h>

#include "tests/guest/programs/signals.h"

namespace {

unsigned handled;

void handler(int) {
  const int saved = errno;
  guest::pair_in_handler(__atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED));
  errno = saved;
}

void* use_cuda(void* number) {
  uint64_t seed = reinterpret_cast<uint64_t>(number) | 1;
  guest::use_context();
  for (int i = 0; i < 20; ++i) {
    guest::pair_by_path(guest::next_random(&seed), 16);
    try {
      throw i;
    } catch (int) {
    }
  }
  return nullptr;
}

}  // namespace

int main() {
  guest::start_cuda();
  guest::on_signal(SIGRTMIN, handler);
  {
    const guest::Timer timer(SIGRTMIN, 20000, 0);
    uint64_t round = 0;
    for (const guest::Storm storm; storm.goes_on() || round < 20; ++round) {
      pthread_t threads[4];
      for (pthread_t& thread : threads) {
        CHECKED(pthread_create(&thread, nullptr, use_cuda,
                               reinterpret_cast<void*>(round * 8 + static_cast<uint64_t>(&thread - threads) * 2 + 1)));
      }
      for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
    }
    guest::figure("rounds", static_cast<long long>(round));
  }
  guest::figure("handled", handled);
  HOLDS(handled > 0);
  guest::say("all threads ended");
  return 0;
}
