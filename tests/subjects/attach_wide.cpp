// A program with the address space and the threads of one that uses NVIDIA's driver and a framework, which culprit
// attaches to:
//   reserved    1 TiB without access, as for unified addresses, and 1 TiB writable that is never touched
//   shared      1 GiB of /dev/zero, of which a part is touched
//   private     as many MiB as the first argument says, all touched
//   a device    with the second argument: a mapped file whose path leads to a FIFO, so that opening it waits for ever
//   threads     that sleep in poll, ppoll and futexes, with and without a time-out; the main one calls ioctl and
//   sched_yield
// Prints "ready" and, once standard input is closed, "fine"; exit code 3 and the problem when a call returned early.
#include <cuda_runtime_api.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/subjects/check.h"

namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr int kThreadsOfEachKind = 10;

std::atomic<bool> stop{false};
std::mutex mutex;
std::condition_variable condition;
int wake[2];

[[noreturn]] void wrong(const char* what) {
  fprintf(stderr, "wrong: %s: %s\n", what, strerror(errno));
  _exit(3);
}

char* map(size_t bytes, int protection, int flags, int file) {
  void* memory = mmap(nullptr, bytes, protection, flags, file, 0);
  if (memory == MAP_FAILED) wrong("mmap");
  return static_cast<char*>(memory);
}

void touch(char* memory, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 4096) memory[at] = 1;
}

// Maps `name`, and mounts a FIFO over it.
void map_device(const std::string& name) {
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) wrong("unshare");
  const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, 1 << 20) != 0) wrong("the device");
  map(1 << 20, PROT_READ, MAP_SHARED, file);
  close(file);
  const std::string fifo = name + ".fifo";
  if (mkfifo(fifo.c_str(), 0600) != 0) wrong("mkfifo");
  if (mount(fifo.c_str(), name.c_str(), nullptr, MS_BIND, nullptr) != 0) wrong("mount");
}

void wait_in_poll() {
  pollfd woken = {wake[0], POLLIN, 0};
  if (poll(&woken, 1, -1) != 1) wrong("poll");
}

void wait_in_ppoll() {
  pollfd woken = {wake[0], POLLIN, 0};
  const timespec hour = {3600, 0};
  if (ppoll(&woken, 1, &hour, nullptr) != 1) wrong("ppoll");
}

void wait_in_futex() {
  std::unique_lock<std::mutex> lock(mutex);
  condition.wait(lock, [] { return stop.load(); });
}

void wait_in_timed_futex() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!stop.load()) condition.wait_for(lock, std::chrono::milliseconds(100));
}

}  // namespace

int main(int count, char** arguments) {
  const size_t touched = strtoul(count > 1 ? arguments[1] : "16", nullptr, 10) * kMiB;
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  map(kMiB << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  map(kMiB << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1);
  const int zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
  touch(map(1024 * kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, zero), kMiB);
  touch(map(touched, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), touched);
  if (count > 2) map_device(arguments[2]);
  if (pipe(wake) != 0) wrong("pipe");
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreadsOfEachKind; ++i) {
    for (void (*wait)() : {wait_in_poll, wait_in_ppoll, wait_in_futex, wait_in_timed_futex}) threads.emplace_back(wait);
  }
  puts("ready");
  fflush(stdout);
  for (pollfd input = {STDIN_FILENO, POLLIN, 0}; poll(&input, 1, 0) == 0;) {
    int left = 0;
    for (int i = 0; i < 100; ++i) {
      if (ioctl(wake[0], FIONREAD, &left) != 0 || left != 0) wrong("ioctl");
    }
    sched_yield();
  }
  stop = true;
  condition.notify_all();
  if (write(wake[1], "x", 1) != 1) wrong("write");
  for (std::thread& thread : threads) thread.join();
  CHECKED(cudaFree(pointer));
  puts("fine");
  return 0;
}
