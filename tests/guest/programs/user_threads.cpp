// User threads on one kernel thread, which a timer signal switches wherever they are, also in the middle of CUDA calls:
// user_threads STACK_KIB [jump]
// "jump": by siglongjmp instead of swapcontext. The figure "live" is the number of allocations left behind.
#include <errno.h>
#include <setjmp.h>

#include "tests/guest/programs/painted.h"
#include "tests/guest/programs/signals.h"

namespace {

constexpr int kThreads = 8;

struct UserThread {
  ucontext_t context;
  sigjmp_buf place;
  bool has_place;
  bool ended;
  uint64_t rounds;
};
UserThread threads[kThreads];
ucontext_t main_context;
volatile sig_atomic_t current = -1;  // -1: no user thread runs
bool jumps;
uint64_t switches;

// Gives the processor to the next user thread that goes on; to main when all have ended.
void switch_to_next() {
  const int from = current;
  int to = from;
  for (int i = 1; i <= kThreads; ++i) {
    to = (from + i) % kThreads;
    if (!threads[to].ended) break;
  }
  if (to == from && !threads[from].ended) return;
  ++switches;
  if (threads[to].ended) {
    current = -1;
    setcontext(&main_context);
  }
  current = to;
  if (jumps && threads[to].has_place) {
    if (threads[from].ended || sigsetjmp(threads[from].place, 1) == 0) {
      threads[from].has_place = !threads[from].ended;
      threads[to].has_place = false;
      siglongjmp(threads[to].place, 1);
    }
    return;
  }
  // A user thread that has not begun, or the way of all without "jump".
  if (jumps) {
    if (!threads[from].ended && sigsetjmp(threads[from].place, 1) != 0) return;
    threads[from].has_place = !threads[from].ended;
    setcontext(&threads[to].context);
  }
  swapcontext(&threads[from].context, &threads[to].context);
}

void handler(int) {
  const int error = errno;
  if (current >= 0) switch_to_next();
  errno = error;
}

void work(int number) {
  const guest::Storm lasts;
  uint64_t path = static_cast<uint64_t>(number) << 40;
  UserThread& self = threads[number];
  for (; (lasts.goes_on() && guest::driver_has_room()) || self.rounds < 200; ++self.rounds) {
    guest::pair_by_path(path++, 8);
    CUevent event = nullptr;
    CHECKED(cuEventCreate(&event, 0));
    CHECKED(cuEventDestroy(event));
    if (self.rounds % 64 == 0) guest::allocate_by_path(4096 + static_cast<uint64_t>(number), path, 6);
  }
  // No signal from here on: it would come between the end and the switch.
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, nullptr);
  self.ended = true;
  switch_to_next();
}

// A user thread begins with the signal blocked: it must not come in swapcontext, after the mask and before the stack.
void begin(int number) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  work(number);
  abort();
}

}  // namespace

int main(int count, char** argv) {
  const size_t bytes = static_cast<size_t>(atoi(argv[1])) * 1024;
  jumps = count > 2;
  guest::start_cuda();
  const guest::Painted stacks(bytes * kThreads);
  for (int i = 0; i < kThreads; ++i) {
    UserThread& thread = threads[i];
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stacks.memory() + static_cast<size_t>(i) * bytes;
    thread.context.uc_stack.ss_size = bytes;
    sigaddset(&thread.context.uc_sigmask, SIGRTMIN);
    makecontext(&thread.context, reinterpret_cast<void (*)()>(begin), 1, i);
  }
  guest::on_signal(SIGRTMIN, handler);
  const guest::Timer timer(SIGRTMIN, 5000, guest::thread_id());
  volatile bool begun = false;
  getcontext(&main_context);
  if (!begun) {
    begun = true;
    current = 0;
    setcontext(&threads[0].context);
  }
  HOLDS(switches >= 20);
  guest::figure("switches", static_cast<long long>(switches));
  if (guestDriverLive != nullptr) guest::figure("live", static_cast<long long>(guestDriverLive()));
  guest::say("switched user threads and went on");
  return 0;
}
