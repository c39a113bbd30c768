// A program in which nothing can be loaded: its main thread is in the loader, inside the constructor of a library that
// waits for the end of standard input. With "other" there is a second thread, which is free; with "vfork" the main
// thread waits, where nothing can stop it, for a vfork child that does the same. Prints "fine" at the end.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/subjects/check.h"

static int wait_for_vfork_child() {
  const pid_t child = vfork();
  if (child == 0) {
    // The child prints it, because the main thread can still be stopped before the child runs.
    if (write(STDOUT_FILENO, "ready\n", 6) != 6) _exit(4);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 3;
  puts("fine");
  return 0;
}

int main(int, char** argv) {
  if (strcmp(argv[1], "vfork") == 0) return wait_for_vfork_child();
  std::atomic<bool> stop{false};
  std::thread other;
  if (strcmp(argv[1], "other") == 0) {
    other = std::thread([&] {
      while (!stop.load()) usleep(1000);
    });
  }
  void* library = dlopen(argv[2], RTLD_NOW);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 3;
  }
  stop = true;
  if (other.joinable()) other.join();
  puts("fine");
  return 0;
}
