// A program that culprit attaches to while it runs, and that notices every change of its state.
//
// It leaks 11001 bytes before it prints "ready"; from then on, until standard input is closed, threads
//   check   that every register, the red zone, errno and the floating-point state stay what they were
//   allocate and free device memory
//   malloc and free, so that some thread is always inside malloc
//   come and go
//   wait in system calls, of which none may return early
//   are interrupted by a timer's signal
// and the main thread does what each byte of standard input says:
//   x   leaks 20001 bytes
//   k   frees 12001 bytes that it had before "ready"
//   d   frees the middle of 13001 bytes that it had before "ready": the driver refuses
//   e   leaves 30001 bytes behind by an exception
//   t   has a thread leak 40001 bytes and end
//   q   has a thread leak 50001 bytes and end by pthread_exit()
// With the argument "undumpable" it forbids other processes of its user to trace it. With "waiting" it has a single
// thread, which waits in system calls that must not return early; with "computing" a single thread, which always
// computes and checks its registers; with "apart" a single thread, which does what standard input says, while CUDA is
// called by short threads alone. Ends with "fine", or exit code 3 and the problem.
#include <cuda_runtime_api.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

std::atomic<bool> stop{false};
std::atomic<long> rounds{0};
std::atomic<long> signals{0};

[[noreturn]] void wrong(const char* what) {
  fprintf(stderr, "wrong: %s\n", what);
  fflush(stderr);
  _exit(3);
}

SUBJECT_FUNCTION void* allocate(size_t bytes) {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, bytes));
  return pointer;
}

SUBJECT_FUNCTION void leak_before() { allocate(11001); }
SUBJECT_FUNCTION void leak_after() { allocate(20001); }
SUBJECT_FUNCTION void leak_by_exception() {
  void* lost = allocate(30001);
  if (lost != nullptr) throw std::runtime_error("the residual is NaN");
  CHECKED(cudaFree(lost));
}
SUBJECT_FUNCTION void* leak_in_thread(void*) { return allocate(40001); }
SUBJECT_FUNCTION void* leak_and_exit_thread(void*) {
  allocate(50001);
  pthread_exit(nullptr);
}

void run_thread(void* (*work)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, work, nullptr) != 0 || pthread_join(thread, nullptr) != 0) wrong("a thread");
}

struct BeforeReady {
  void* kept = allocate(12001);
  void* whole = allocate(13001);
};

void obey(char byte, const BeforeReady& before) {
  switch (byte) {
    case 'k':
      CHECKED(cudaFree(before.kept));
      break;
    case 'd':
      if (cudaFree(static_cast<char*>(before.whole) + 4096) == cudaSuccess) wrong("half of it can be freed");
      cudaGetLastError();
      break;
    case 'e':
      try {
        leak_by_exception();
      } catch (const std::runtime_error&) {
      }
      break;
    case 't':
      run_thread(leak_in_thread);
      break;
    case 'q':
      run_thread(leak_and_exit_thread);
      break;
    default:
      leak_after();
  }
}

#if defined(__x86_64__)
// Fills registers, the red zone and vector registers with numbers of their own, runs for a while, and counts what
// differs.
SUBJECT_FUNCTION long differing_registers() {
  alignas(32) unsigned char pattern[32], after[32];
  for (int i = 0; i < 32; ++i) pattern[i] = static_cast<unsigned char>(i * 7 + 1);
  long different = 0;
  asm volatile(
      "vmovdqu (%[pattern]), %%ymm7\n"
      "mov $0x1111111111111111, %%r8\n"
      "mov $0x2222222222222222, %%r9\n"
      "mov $0x3333333333333333, %%r10\n"
      "mov $0x4444444444444444, %%r11\n"
      "mov $0x5555555555555555, %%r12\n"
      "mov $0x6666666666666666, %%r13\n"
      "mov $0x7777777777777777, %%r14\n"
      "mov $0x7878787878787878, %%r15\n"
      "mov %%r15, -8(%%rsp)\n"
      "mov %%r14, -128(%%rsp)\n"
      "mov $20000, %%ecx\n"
      "1: sub $1, %%ecx\n"
      "jnz 1b\n"
      "xor %[different], %[different]\n"
      "cmp %%r15, -8(%%rsp)\n"
      "je 2f\n inc %[different]\n 2: cmp %%r14, -128(%%rsp)\n"
      "je 2f\n inc %[different]\n 2: mov $0x1111111111111111, %%rcx\n cmp %%rcx, %%r8\n"
      "je 2f\n inc %[different]\n 2: mov $0x2222222222222222, %%rcx\n cmp %%rcx, %%r9\n"
      "je 2f\n inc %[different]\n 2: mov $0x3333333333333333, %%rcx\n cmp %%rcx, %%r10\n"
      "je 2f\n inc %[different]\n 2: mov $0x4444444444444444, %%rcx\n cmp %%rcx, %%r11\n"
      "je 2f\n inc %[different]\n 2: mov $0x5555555555555555, %%rcx\n cmp %%rcx, %%r12\n"
      "je 2f\n inc %[different]\n 2: mov $0x6666666666666666, %%rcx\n cmp %%rcx, %%r13\n"
      "je 2f\n inc %[different]\n 2:\n"
      "vmovdqu %%ymm7, (%[after])\n"
      "vzeroupper\n"
      : [different] "=&a"(different)
      : [pattern] "r"(pattern), [after] "r"(after)
      : "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm7", "memory", "cc");
  return different + (memcmp(pattern, after, sizeof(pattern)) != 0 ? 100 : 0);
}
#else
long differing_registers() { return 0; }
#endif

void check_itself() {
  while (!stop.load()) {
    errno = 4711;
    const long different = differing_registers();
    if (different != 0) wrong(different >= 100 ? "a vector register" : "a register or the red zone");
    if (errno != 4711) wrong("errno");
    ++rounds;
    usleep(200);
  }
}

void churn() {
  while (!stop.load()) {
    void* pointers[4];
    for (void*& pointer : pointers) pointer = allocate(5001);
    for (void* pointer : pointers) CHECKED(cudaFree(pointer));
    usleep(500);
  }
}

void churn_heap() {
  while (!stop.load()) {
    std::vector<void*> blocks;
    for (int i = 1; i < 200; ++i) blocks.push_back(malloc(static_cast<size_t>(i) * 37));
    for (void* block : blocks) free(block);
    usleep(500);
  }
}

void come_and_go() {
  while (!stop.load()) {
    std::thread([] { CHECKED(cudaFree(allocate(6001))); }).join();
    usleep(300);
  }
}

// The timer's signals go to the main thread only: nothing else may end these calls early.
struct Waits {
  int epoll = epoll_create1(0);
  int sockets[2];
  Waits() {
    const timeval patience = {0, 20000};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 ||
        setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
      wrong("no sockets");
  }
  void wait_in_each() const {
    epoll_event event;
    if (epoll_wait(epoll, &event, 1, 20) != 0) wrong("epoll_wait returned early");
    if (poll(nullptr, 0, 20) != 0) wrong("poll returned early");
    timespec time = {0, 20000000};
    if (nanosleep(&time, nullptr) != 0) wrong("nanosleep returned early");
    sigset_t none;
    sigemptyset(&none);
    if (sigtimedwait(&none, nullptr, &time) != -1 || errno != EAGAIN) wrong("sigtimedwait returned early");
    char byte = 0;
    if (recv(sockets[0], &byte, 1, 0) != -1 || errno != EAGAIN) wrong("recv returned early");
  }
};

void wait_in_calls() {
  const Waits waits;
  while (!stop.load()) waits.wait_in_each();
}

void on_timer(int) { ++signals; }

template <typename Work>
int do_alone(Work work) {
  puts("ready");
  fflush(stdout);
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) == 0;) work();
  puts("fine");
  return 0;
}

void compute() {
  if (differing_registers() != 0) wrong("a register");
}

void obey_input(const BeforeReady& before) {
  char byte = 0;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, &byte, 1);
    if (got < 0) wrong("read was interrupted in spite of SA_RESTART");
    if (got == 0) return;
    obey(byte, before);
  }
}

int obey_without_context() {
  BeforeReady* before = nullptr;
  std::thread([&] { before = new BeforeReady; }).join();
  puts("ready");
  fflush(stdout);
  obey_input(*before);
  delete before;
  puts("fine");
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "apart") == 0) return obey_without_context();
  leak_before();
  if (count > 1 && strcmp(arguments[1], "undumpable") == 0) prctl(PR_SET_DUMPABLE, 0);
  if (count > 1 && strcmp(arguments[1], "computing") == 0) return do_alone(compute);
  const Waits waits;
  if (count > 1 && strcmp(arguments[1], "waiting") == 0) return do_alone([&] { waits.wait_in_each(); });
  const BeforeReady before;
  sigset_t timer;
  sigemptyset(&timer);
  sigaddset(&timer, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &timer, nullptr);
  std::vector<std::thread> threads;
  threads.emplace_back(check_itself);
  threads.emplace_back(check_itself);
  threads.emplace_back(churn);
  threads.emplace_back(churn);
  threads.emplace_back(churn_heap);
  threads.emplace_back(come_and_go);
  threads.emplace_back(wait_in_calls);
  pthread_sigmask(SIG_UNBLOCK, &timer, nullptr);
  struct sigaction action = {};
  action.sa_handler = on_timer;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval every = {{0, 3000}, {0, 3000}};
  setitimer(ITIMER_REAL, &every, nullptr);
  puts("ready");
  fflush(stdout);
  obey_input(before);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  if (rounds.load() == 0 || signals.load() == 0) wrong("nothing was checked");
  puts("fine");
  fflush(stdout);
  if (count > 1 && strcmp(arguments[1], "quick_exit") == 0) quick_exit(0);
  return 0;
}
