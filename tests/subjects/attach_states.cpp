// Threads in a state in which a call that is put into them would go wrong: attach_states KIND
//   alignment  the only thread that may be stopped has the processor check the alignment of each access (flag AC)
//   floating   ... has enabled all exceptions of floating-point instructions, rounds upward, and has no x87 register
//   left dispatch   the only thread has its system calls given to a handler (syscall user dispatch), which ends the
//   program clone      a thread that a system call made uses the thread-local data of the main thread, which allocates
//   at times,
//              and otherwise waits in a call that a stop would interrupt
//   unmapping  two threads map memory, write addresses of the driver to it and unmap it, all the time
//   mappings   all mappings but ten that the system allows are in use
// "ready" is printed once that is so, and "fine" at the end of standard input.
#include <cuda.h>
#include <fenv.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

std::atomic<bool> stop{false};
volatile long rounds = 0;

[[noreturn]] void wrong(const char* what) {
  fprintf(stderr, "wrong: %s\n", what);
  fflush(stderr);
  _exit(3);
}

void expect(bool condition, const char* what) {
  if (!condition) wrong(what);
}

void say_ready() {
  puts("ready");
  fflush(stdout);
}

// In another thread, which a stop would interrupt.
void wait_for_end() {
  const int events = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {};
  event.events = EPOLLIN;
  expect(epoll_ctl(events, EPOLL_CTL_ADD, STDIN_FILENO, &event) == 0, "epoll_ctl");
  expect(epoll_wait(events, &event, 1, 100000) == 1, "epoll_wait");
  stop = true;
}

char* map(std::size_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  expect(memory != MAP_FAILED, "mmap");
  return static_cast<char*>(memory);
}

#ifdef __x86_64__
void check_alignment() {
  std::thread waiter(wait_for_end);
  say_ready();
  asm volatile("subq $128, %%rsp; pushfq; orq $0x40000, (%%rsp); popfq; addq $128, %%rsp" ::: "memory", "cc");
  while (!stop.load(std::memory_order_relaxed)) {
  }
  unsigned long flags = 0;
  asm volatile("subq $128, %%rsp; pushfq; movq (%%rsp), %0; andq $~0x40000, (%%rsp); popfq; addq $128, %%rsp"
               : "=r"(flags)
               :
               : "memory", "cc");
  expect((flags & 0x40000) != 0, "the flag is gone");
  waiter.join();
}

void check_floating() {
  std::thread waiter(wait_for_end);
  say_ready();
  feenableexcept(FE_ALL_EXCEPT);
  fesetround(FE_UPWARD);
  while (!stop.load(std::memory_order_relaxed)) {
    long double values[8];
    long double* place = values;
    long count = 300000;
    asm volatile(
        "fld1; fldpi; fldz; fld1; fldz; fld1; fldz; fld1; 1: dec %1; jnz 1b;"
        "fstpt (%0); fstpt 16(%0); fstpt 32(%0); fstpt 48(%0); fstpt 64(%0); fstpt 80(%0); fstpt 96(%0); fstpt 112(%0)"
        : "+r"(place), "+r"(count)
        :
        : "memory", "cc", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)");
    expect(values[0] == 1 && values[1] == 0 && values[7] == 1 && values[6] > 3.1L && values[6] < 3.2L, "a register");
    expect(fegetround() == FE_UPWARD, "the rounding");
  }
  fedisableexcept(FE_ALL_EXCEPT);
  waiter.join();
}
#endif

void dispatch() {
#ifndef PR_SET_SYSCALL_USER_DISPATCH
  constexpr int PR_SET_SYSCALL_USER_DISPATCH = 59;
#endif
  static volatile char selector = 0;
  signal(SIGSYS, [](int) {
    selector = 0;
    wrong("a system call of another one");
  });
  if (prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, 0, 0, &selector) != 0) {
    say_ready();
    return wait_for_end();  // an older kernel
  }
  say_ready();
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) == 0;) {
    selector = 1;
    for (int i = 0; i < 20000000; ++i) rounds = rounds + 1;
    selector = 0;
  }
}

int compute(void*) {
  while (!stop.load()) rounds = rounds + 1;
  syscall(SYS_exit, 0);
  return 0;
}

void clone_without_data() {
  constexpr std::size_t kStack = 1 << 20;
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
  expect(clone(compute, map(kStack) + kStack, flags, nullptr) > 0, "clone");
  const int events = epoll_create1(EPOLL_CLOEXEC);
  epoll_event event = {};
  event.events = EPOLLIN;
  expect(epoll_ctl(events, EPOLL_CTL_ADD, STDIN_FILENO, &event) == 0, "epoll_ctl");
  say_ready();
  while (epoll_wait(events, &event, 1, 200) == 0) free(malloc(1000));
  stop = true;
  usleep(20000);
}

void map_and_unmap() {
  constexpr std::size_t kSize = 1 << 20;
  constexpr std::size_t kStep = 128;
  while (!stop.load()) {
    char* memory = map(kSize);
    for (std::size_t at = 0; at < kSize; at += kStep) {
      auto function = &cuMemAlloc_v2;
      memcpy(memory + at, &function, sizeof(function));
    }
    usleep(200);
    expect(munmap(memory, kSize) == 0, "munmap");
  }
}

void use_all_mappings() {
  std::vector<void*> all;
  for (int i = 0;; ++i) {
    const int protection = i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;  // neighbours are apart
    void* one = mmap(nullptr, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (one == MAP_FAILED) break;
    all.push_back(one);
    if (all.size() > 1000000) wrong("there is no limit");
  }
  for (std::size_t i = 0; i < 10; ++i) munmap(all[all.size() - 1 - i], 4096);
}

}  // namespace

int main(int, char** arguments) {
  const std::string kind = arguments[1];
#ifdef __x86_64__
  if (kind == "alignment") check_alignment();
  if (kind == "floating") check_floating();
#endif
  if (kind == "dispatch") dispatch();
  if (kind == "clone") clone_without_data();
  if (kind == "unmapping") {
    std::thread one(map_and_unmap);
    std::thread other(map_and_unmap);
    say_ready();
    wait_for_end();
    one.join();
    other.join();
  }
  if (kind == "mappings") {
    use_all_mappings();
    say_ready();
    wait_for_end();
  }
  puts("fine");
  return 0;
}
