// Leaks 11001 bytes and ends in the way that the argument names. "live" prints "ready" and waits for the end of stdin.
#include <cuda_runtime_api.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/subjects/check.h"

static void* kept = nullptr;

SUBJECT_FUNCTION void leak_here() { CHECKED(cudaMalloc(&kept, 11001)); }

namespace {

constexpr int kCode = 9;
std::string how;
sigjmp_buf after_abort;

void free_here() {
  CHECKED(cudaFree(kept));
  kept = nullptr;
}

void end_in_handler(int) {
  if (how == "handler exit") exit(kCode);
  if (how == "handler _exit") _exit(kCode);
  siglongjmp(after_abort, 1);  // out of abort()
}

void* end_in_thread(void*) { exit(kCode); }

// Runs after the library's own handler, which was registered by the first CUDA call.
void end_in_exit_handler() {
  if (how == "exit kill") raise(SIGKILL);
  if (how == "exit raw") syscall(SYS_exit_group, kCode);
  if (how == "exit _exit") _exit(kCode);
  if (how == "exit again") exit(kCode);
}

void prepare() {
  if (how.compare(0, 5, "exit ") == 0) atexit(end_in_exit_handler);
  if (how == "quick_exit free") at_quick_exit(free_here);
  if (how.compare(0, 8, "handler ") == 0) signal(SIGUSR1, end_in_handler);
  if (how == "abort jump") signal(SIGABRT, end_in_handler);
}

void wait_for_vfork_child() {
  const pid_t child = vfork();
  if (child == 0) _exit(3);
  int status = 0;
  EXPECTED(child, waitpid(child, &status, 0));
  EXPECTED(3, WEXITSTATUS(status));
}

void end() {
  if (how == "kill") raise(SIGKILL);
  if (how == "term") raise(SIGTERM);
  if (how == "abort" || how == "abort jump") abort();
  if (how == "segv") raise(SIGSEGV);
  if (how == "_exit") _exit(kCode);
  if (how == "_Exit") _Exit(kCode);
  if (how.compare(0, 10, "quick_exit") == 0) quick_exit(kCode);
  if (how == "exit") exit(kCode);
  if (how == "exit large") exit(256 + kCode);
  if (how.compare(0, 5, "exit ") == 0) exit(1);
  if (how == "exit_group") syscall(SYS_exit_group, kCode);
  if (how == "last thread") syscall(SYS_exit, kCode);
  if (how == "terminate") throw 1;
  if (how.compare(0, 8, "handler ") == 0) raise(SIGUSR1);
  if (how == "exec") execl("/bin/sh", "sh", "-c", "exit 9", nullptr);
  if (how == "exec self") execl("/proc/self/exe", "end_how", "exit", nullptr);
  if (how == "thread") {
    pthread_t thread;
    EXPECTED(0, pthread_create(&thread, nullptr, end_in_thread, nullptr));
    for (;;) pause();
  }
  if (how == "vfork") wait_for_vfork_child();
  if (how == "live") {
    puts("ready");
    fflush(stdout);
    char byte = 0;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
  }
}

}  // namespace

int main(int, char** argv) {
  how = argv[1];
  prepare();
  leak_here();
  if (sigsetjmp(after_abort, 1) == 0) {
    end();
  } else {
    // The process lives on: its events count.
    free_here();
    leak_here();
  }
  return kCode;
}
