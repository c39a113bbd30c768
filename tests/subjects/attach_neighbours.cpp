// Threads beside which an attach may do harm; nothing here uses CUDA.
//
//   attach_neighbours stacks       two threads' stacks lie in one mapping, and the upper one is nearly full
//   attach_neighbours alternate    a signal handler runs on a full alternate stack, which lies in its thread's stack
//   attach_neighbours "in turn"    the main thread sleeps for 50 ms, where it may be stopped, and waits for 0.5 s in a
//                                  call that a stop would interrupt
//   attach_neighbours short        a thread ends 60 ms after it began, where it may be stopped, and starts another one
//   attach_neighbours user         a thread has another user than the others, by a system call of its own
//   attach_neighbours jail FOLDER  the folder is the program's root, and has no /proc
//   attach_neighbours unprivileged the program has given up its rights since its start
//   attach_neighbours users        a thread changes its user all the time, and waits each time until all others have
//   attach_neighbours vfork LIB    the main thread waits in vfork() for a child, while another one loads LIB
//
// "ready" is printed once the threads wait. At the end of standard input each checks its memory, and "fine" is printed.
#include <alloca.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "tests/subjects/check.h"

namespace {

constexpr std::size_t kStack = 256 * 1024;
constexpr std::size_t kLeft = 3000;  // of a nearly full stack
std::atomic<bool> stop{false};
std::atomic<int> waiting{0};

[[noreturn]] void wrong(const char* what) {
  fprintf(stderr, "wrong: %s\n", what);
  fflush(stderr);
  _exit(3);
}

void expect(bool condition, const char* what) {
  if (!condition) wrong(what);
}

// Attach prefers a thread that sleeps like this one.
void wait_for_end() {
  ++waiting;
  const timespec time = {0, 20000000};
  while (!stop.load()) nanosleep(&time, nullptr);
}

// Waits `above` bytes above the stack's lower end.
SUBJECT_FUNCTION void* wait_near(char* end) {
  char here;
  const std::size_t room = static_cast<std::size_t>(&here - end);
  volatile char* filler = static_cast<char*>(alloca(room - kLeft));
  filler[0] = 1;
  wait_for_end();
  return const_cast<char*>(filler);
}

void* wait_nearly_full(void* end) {
  wait_near(static_cast<char*>(end));
  return nullptr;
}

void* wait_with_pattern(void*) {
  unsigned char pattern[4096];
  for (std::size_t i = 0; i < sizeof(pattern); ++i) pattern[i] = static_cast<unsigned char>(i * 7);
  wait_for_end();
  for (std::size_t i = 0; i < sizeof(pattern); ++i)
    expect(pattern[i] == static_cast<unsigned char>(i * 7), "the stack of another thread");
  return nullptr;
}

pthread_t start(void* (*work)(void*), char* stack) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  expect(pthread_attr_setstack(&attributes, stack, kStack) == 0, "pthread_attr_setstack");
  pthread_t thread;
  expect(pthread_create(&thread, &attributes, work, stack) == 0, "pthread_create");
  return thread;
}

char* alternate_end;

void* in_handler(void*) {
  // From low to high addresses: frames that this function calls, the alternate stack, this frame.
  char alternate[16384];
  alternate_end = alternate;
  const stack_t on = {alternate, 0, sizeof(alternate)};
  expect(sigaltstack(&on, nullptr) == 0, "sigaltstack");
  struct sigaction action = {};
  action.sa_handler = [](int) { wait_near(alternate_end); };
  action.sa_flags = SA_ONSTACK;
  sigaction(SIGUSR1, &action, nullptr);
  unsigned char* pattern = static_cast<unsigned char*>(alloca(2048));
  memset(pattern, 0x5a, 2048);
  raise(SIGUSR1);
  for (int i = 0; i < 2048; ++i) expect(pattern[i] == 0x5a, "memory below the alternate stack");
  return nullptr;
}

// The main thread waits in a call that is not interrupted, until the end of standard input.
void wait_for_input() {
  const int file = epoll_create1(0);
  epoll_event event = {EPOLLIN, {}};
  epoll_ctl(file, EPOLL_CTL_ADD, STDIN_FILENO, &event);
  char byte;
  do {
    expect(epoll_wait(file, &event, 1, 100000) == 1, "epoll_wait");
  } while (read(STDIN_FILENO, &byte, 1) > 0);
}

void ready() {
  puts("ready");
  fflush(stdout);
}

void* load(void* library) {
  expect(dlopen(static_cast<const char*>(library), RTLD_NOW) != nullptr, "dlopen");
  return nullptr;
}

double now() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

void wait_in_turn() {
  int ends[2];
  const timeval patience = {0, 500000};
  expect(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  expect(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) == 0, "setsockopt");
  ready();
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
    const timespec time = {0, 50000000};
    expect(nanosleep(&time, nullptr) == 0, "nanosleep");
    char bytes[2] = {};
    expect(send(ends[1], bytes, 1, 0) == 1, "send");
    const double begin = now();
    expect(recv(ends[0], bytes, 2, MSG_WAITALL) == 1 && now() - begin > 0.49, "recv returned early");
  }
}

void change_users() {
  double longest = 0;
  pthread_t thread;
  const auto change = [](void* time) -> void* {
    while (!stop.load()) {
      const double begin = now();
      expect(seteuid(geteuid()) == 0, "seteuid");
      *static_cast<double*>(time) = std::max(*static_cast<double*>(time), now() - begin);
      usleep(100);
    }
    return nullptr;
  };
  expect(pthread_create(&thread, nullptr, change, &longest) == 0, "pthread_create");
  ready();
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) <= 0;) {
    const timespec time = {0, 20000000};
    nanosleep(&time, nullptr);  // libc's signal ends it early
  }
  stop = true;
  alarm(20);
  pthread_join(thread, nullptr);
  expect(longest < 2, "seteuid waited for seconds");
}

void* sleep_to_end(void*) {
  wait_for_end();
  return nullptr;
}

void* change_own_user(void*) {
  expect(syscall(SYS_setresuid, -1, 65534, -1) == 0, "setresuid");
  return sleep_to_end(nullptr);
}

void start_short();

void* live_shortly(void*) {
  const timespec time = {0, 60000000};
  expect(nanosleep(&time, nullptr) == 0, "nanosleep");
  if (!stop.load()) start_short();
  --waiting;
  return nullptr;
}

void start_short() {
  ++waiting;
  pthread_t thread;
  expect(pthread_create(&thread, nullptr, live_shortly, nullptr) == 0, "pthread_create");
  pthread_detach(thread);
}

void replace_threads() {
  start_short();
  ready();
  wait_for_input();
  stop = true;
  while (waiting.load() != 0) usleep(1000);
}

// The child ends in the middle of an attach that finds no thread.
void wait_for_vfork(char* library) {
  auto* end = static_cast<double*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  pthread_t thread;
  expect(pthread_create(&thread, nullptr, load, library) == 0, "pthread_create");  // says "ready"
  const pid_t child = vfork();
  if (child == 0) {
    const timespec time = {1, 0};
    nanosleep(&time, nullptr);
    *end = now();
    _exit(0);
  }
  const double late = now() - *end;
  if (late > 0.5) wrong("vfork returned late");
  int status = 0;
  expect(waitpid(child, &status, 0) == child && status == 0, "the child");
  pthread_join(thread, nullptr);
}

void wait_jailed(char* folder) {
  expect(chroot(folder) == 0 && chdir("/") == 0, "chroot");
  ready();
  wait_for_input();
}

void wait_unprivileged() {
  expect(setresuid(65534, 65534, 65534) == 0, "setresuid");
  ready();
  for (char byte; read(STDIN_FILENO, &byte, 1) > 0;) {
  }
}

// The main thread cannot be borrowed meanwhile.
void wait_for_two(pthread_t first, pthread_t second) {
  while (waiting.load() != 2) usleep(1000);
  ready();
  wait_for_input();
  stop = true;
  pthread_join(first, nullptr);
  pthread_join(second, nullptr);
}

void lay_stacks_in_one_mapping() {
  char* memory = static_cast<char*>(
      mmap(nullptr, 2 * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  const pthread_t upper = start(wait_nearly_full, memory + kStack);
  while (waiting.load() != 1) usleep(1000);
  wait_for_two(upper, start(wait_with_pattern, memory));
}

pthread_t begin(void* (*work)(void*)) {
  pthread_t thread;
  expect(pthread_create(&thread, nullptr, work, nullptr) == 0, "pthread_create");
  return thread;
}

// `first` runs before `second` is made, so that its number is lower, and an attach looks at it first.
void start_in_turn(void* (*first)(void*), void* (*second)(void*)) {
  const pthread_t thread = begin(first);
  while (waiting.load() != 1) usleep(1000);
  wait_for_two(thread, begin(second));
}

struct Kind {
  const char* name;
  void (*run)(char** more);
};
const Kind kKinds[] = {
    {"stacks", [](char**) { lay_stacks_in_one_mapping(); }},
    {"alternate", [](char**) { start_in_turn(in_handler, wait_with_pattern); }},
    {"in turn", [](char**) { wait_in_turn(); }},
    {"short", [](char**) { replace_threads(); }},
    {"user", [](char**) { start_in_turn(change_own_user, sleep_to_end); }},
    {"jail", [](char** more) { wait_jailed(more[0]); }},
    {"unprivileged", [](char**) { wait_unprivileged(); }},
    {"users", [](char**) { change_users(); }},
    {"vfork", [](char** more) { wait_for_vfork(more[0]); }},
};

}  // namespace

int main(int, char** arguments) {
  const timespec moment = {0, 1};
  nanosleep(&moment, nullptr);  // the loader's first look for it needs more stack than the threads leave
  for (const Kind& kind : kKinds) {
    if (strcmp(arguments[1], kind.name) != 0) continue;
    kind.run(arguments + 2);
    puts("fine");
    return 0;
  }
  return 2;
}
