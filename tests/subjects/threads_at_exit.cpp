// A program that calls exit() while other threads run. The argument names what these do. A handler of exit() lets the
// threads end, and prints "fine" if each call that a thread was in returned as it should.
#include <cuda_runtime_api.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

static std::atomic<int> g_ready = {0};
static std::atomic<bool> g_end = {false};
static std::vector<std::thread>* g_threads = nullptr;
static int g_pipe[2];
static sem_t g_semaphore;
static std::uint32_t g_futex = 0;
static std::atomic<const char*> g_wrong = {nullptr};

SUBJECT_FUNCTION static void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

SUBJECT_FUNCTION static void lose_two() {
  for (int i = 0; i < 2; ++i) {
    void* volatile pointer = allocate_here();
    pointer = nullptr;
  }
}

static void expect(const char* call, bool as_it_should) {
  if (!as_it_should) g_wrong = call;
}

static void in_read() {
  char byte = 0;
  ++g_ready;
  expect("read", read(g_pipe[0], &byte, 1) == 0);
}

static void in_poll() {
  pollfd one = {g_pipe[0], POLLIN, 0};
  ++g_ready;
  expect("poll", poll(&one, 1, 60000) == 1);
}

static void in_semaphore() {
  timespec end = {};
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_sec += 60;
  ++g_ready;
  expect("sem_timedwait", sem_timedwait(&g_semaphore, &end) == 0);
}

static void in_sleep() {
  const timespec time = {1, 500000000};
  timespec left = {7, 7};
  ++g_ready;
  expect("nanosleep", nanosleep(&time, &left) == 0 && left.tv_sec == 7);
}

static void in_futex() {
  ++g_ready;
  while (!g_end) {
    const long result = syscall(SYS_futex, &g_futex, FUTEX_WAIT, 0, nullptr, nullptr, 0);
    expect("futex", result == 0 || errno == EAGAIN);
  }
}

static void in_signal_wait() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGUSR1);
  const timespec time = {2, 0};
  ++g_ready;
  expect("sigtimedwait", sigtimedwait(&watched, nullptr, &time) < 0 && errno == EAGAIN);
}

static void in_wait() {
  int ends[2];
  CHECKED(pipe(ends));
  const pid_t child = fork();
  if (child == 0) {
    char byte = 0;
    close(g_pipe[1]);
    _exit(read(g_pipe[0], &byte, 1) == 0 ? 7 : 1);
  }
  int status = 0;
  ++g_ready;
  expect("waitpid", waitpid(-1, &status, __WALL) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static void use_driver() {
  ++g_ready;
  while (!g_end) {
    void* pointer = nullptr;
    CHECKED(cudaMalloc(&pointer, 4096));
    CHECKED(cudaFree(pointer));
  }
}

static void use_heap() {
  ++g_ready;
  for (std::size_t i = 0; !g_end; ++i) std::free(std::malloc(16 + i % 5000));
}

static void start_others() {
  ++g_ready;
  while (!g_end) std::thread([] {}).join();
}

static void keep_on_stack() {
  void* volatile kept = allocate_here();
  clear_stack();
  in_semaphore();
  CHECKED(cudaFree(kept));
}

static void keep_thread_local() {
  thread_local void* kept = nullptr;
  kept = allocate_here();
  clear_stack();
  in_semaphore();
  CHECKED(cudaFree(kept));
}

// A pointer that is on the move, from one chunk of the heap to the next.
static void move_all_the_time() {
  auto** place = static_cast<void**>(std::malloc(sizeof(void*)));
  *place = allocate_here();
  ++g_ready;
  for (std::size_t i = 0; !g_end.load(); ++i) {
    auto** next = static_cast<void**>(std::malloc(sizeof(void*) + i % 500));
    *next = *place;
    *place = nullptr;
    std::free(place);
    place = next;
    for (volatile int work = 0; work < 2000; work = work + 1) {
    }
  }
  CHECKED(cudaFree(*place));
}

// Overwrites what it has, in a variable of its own.
SUBJECT_FUNCTION static void overwrite_local() {
  void* buffer = nullptr;
  for (int i = 0; i < 5; ++i) CHECKED(cudaMalloc(&buffer, 11001));
  clear_stack();
  in_semaphore();
  CHECKED(buffer == nullptr ? 1 : 0);
}

static void end_all() {
  g_end = true;
  g_futex = 1;
  syscall(SYS_futex, &g_futex, FUTEX_WAKE, 1000, nullptr, nullptr, 0);
  close(g_pipe[1]);
  for (std::size_t i = 0; i < g_threads->size(); ++i) sem_post(&g_semaphore);
  for (std::thread& thread : *g_threads) thread.join();
  std::puts(g_wrong == nullptr ? "fine" : g_wrong.load());
  std::fflush(stdout);
}

struct Way {
  const char* name;
  std::vector<void (*)()> threads;
};

int main(int, char** argv) {
  const std::string how = argv[1];
  CHECKED(cudaFree(nullptr));
  CHECKED(pipe(g_pipe));
  CHECKED(sem_init(&g_semaphore, 0, 0));
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  CHECKED(pthread_sigmask(SIG_BLOCK, &blocked, nullptr));
  g_threads = new std::vector<std::thread>;
  std::atexit(end_all);
  const std::vector<Way> ways = {
      {"waiting", {in_semaphore, in_semaphore, in_read}},
      {"calls", {in_read, in_poll, in_semaphore, in_sleep, in_futex, in_signal_wait, in_wait}},
      {"driver", {use_driver, use_driver}},
      {"heap", {use_heap, use_heap}},
      {"starting", {start_others, in_semaphore}},
      {"stack", {keep_on_stack}},
      {"thread-local", {keep_thread_local}},
      {"moving", {move_all_the_time, move_all_the_time, move_all_the_time}},
      {"local", {overwrite_local}},
      {"not-dumpable", {in_semaphore}},
  };
  for (const Way& way : ways) {
    if (how != way.name) continue;
    for (void (*work)() : way.threads) {
      const int before = g_ready;
      g_threads->emplace_back(work);
      while (g_ready == before) usleep(1000);
    }
  }
  CHECKED(g_threads->empty() ? 1 : 0);
  if (how == "not-dumpable") CHECKED(prctl(PR_SET_DUMPABLE, 0));
  lose_two();
  clear_stack();
  usleep(20000);  // each thread is in its call
  std::exit(0);
}
