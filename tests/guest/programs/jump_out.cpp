// A handler leaves CUDA calls by siglongjmp, thousands of times, and the program continues: jump_out THREADS
// Allocations of interrupted calls, whose addresses the program did not get, are left behind. The figure "live" is
// their number.
#include <pthread.h>
#include <setjmp.h>

#include "tests/guest/programs/signals.h"

namespace {

thread_local sigjmp_buf back;
thread_local volatile sig_atomic_t armed __attribute__((tls_model("initial-exec")));
unsigned jumps;

void handler(int) {
  if (armed == 0) return;
  armed = 0;
  siglongjmp(back, 1);
}

GUEST_FUNCTION void walk(uint64_t path) {
  armed = 1;
  while (armed != 0) guest::pair_by_path(path++, 12);
}

GUEST_FUNCTION void interrupted(uint64_t path) {
  if (sigsetjmp(back, 1) != 0) {
    __atomic_add_fetch(&jumps, 1, __ATOMIC_RELAXED);
    return;
  }
  walk(path);
}

void* storm(void* number) {
  guest::use_context();
  const guest::Timer timer(SIGRTMIN, 5000, guest::thread_id());
  uint64_t path = reinterpret_cast<uint64_t>(number) << 32;
  int round = 0;
  for (const guest::Storm lasts; (lasts.goes_on() && guest::driver_has_room()) || round < 1000; ++round) {
    interrupted(path += 1000);
    // Shallower and deeper than where it was left.
    guest::pair();
    guest::pair_by_path(path, 20);
    if (round % 16 == 0) {
      try {
        const CUdeviceptr memory = guest::allocate(100);
        guest::release(memory);
        throw round;
      } catch (int) {
      }
    }
  }
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  const int count = atoi(argv[1]);
  guest::start_cuda();
  guest::on_signal(SIGRTMIN, handler);
  pthread_t threads[16];
  for (int i = 1; i < count; ++i)
    CHECKED(pthread_create(&threads[i], nullptr, storm, reinterpret_cast<void*>(static_cast<uint64_t>(i))));
  storm(nullptr);
  for (int i = 1; i < count; ++i) CHECKED(pthread_join(threads[i], nullptr));
  guest::allocate(11001);
  HOLDS(jumps >= 1000);
  guest::figure("jumps", jumps);
  if (guestDriverLive != nullptr) guest::figure("live", static_cast<long long>(guestDriverLive()));
  guest::say("jumped out of calls and went on");
  return 0;
}
