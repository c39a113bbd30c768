// A handler calls CUDA while its thread or process ends: handler_at_exit HOW [first]
//   HOW: exit, quick_exit, _exit, main-thread (main ends by pthread_exit), threads, tls (a thread-local object calls
//   CUDA), statics (a global object calls CUDA). first: the handler makes the process's first CUDA call, after the end
//   began.
// The program checks twenty forked children, each of which ends like this. A child that takes 20 s counts as hanging.
#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "tests/guest/programs/signals.h"

namespace {

const char* how;
bool armed;
unsigned handled;

void handler(int) {
  if (!__atomic_load_n(&armed, __ATOMIC_RELAXED)) return;
  const int saved = errno;
  if (guest::primary_context() == nullptr) guest::start_cuda();
  guest::pair_in_handler(++handled);
  errno = saved;
}

bool is(const char* name) { return strcmp(how, name) == 0; }

struct CallsAtEnd {
  bool used = false;
  ~CallsAtEnd() {
    for (unsigned i = 0; used && i < 64; ++i) guest::pair_anywhere(i);
  }
};
thread_local CallsAtEnd of_thread;
CallsAtEnd of_process;

void* short_thread(void* number) {
  guest::pair_anywhere(reinterpret_cast<uint64_t>(number));
  of_thread.used = is("tls");
  return nullptr;
}

void run_threads() {
  for (uint64_t i = 0; i < 50; ++i) {
    pthread_t threads[2];
    for (pthread_t& thread : threads)
      CHECKED(pthread_create(&thread, nullptr, short_thread, reinterpret_cast<void*>(i)));
    for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  }
}

// Runs among the handlers of the process's end, and lasts until the signals' handler ran.
void wait_for_handler() {
  const double start = guest::now();
  while (*const_cast<volatile unsigned*>(&handled) == 0 && guest::now() - start < 1) {
  }
}

[[noreturn]] void child(bool first, int number) {
  alarm(20);
  guest::on_signal(SIGRTMIN, handler);
  armed = !first;
  if (!first) {
    guest::start_cuda();
    guest::pair();
  }
  static const guest::Timer timer(SIGRTMIN, 20000, 0);
  for (int i = 0; i < number && !first; ++i) guest::pair_by_path(static_cast<uint64_t>(i), 8);
  if (is("threads") || is("tls")) run_threads();
  if (is("statics")) of_process.used = true;
  if (is("main-thread")) pthread_exit(nullptr);
  armed = true;
  if (first) HOLDS(atexit(wait_for_handler) == 0 && at_quick_exit(wait_for_handler) == 0);
  if (is("quick_exit")) quick_exit(5);
  if (is("_exit")) _exit(5);
  exit(5);
}

}  // namespace

int main(int argc, char** argv) {
  how = argv[1];
  const bool first = argc > 2;
  // A process whose last thread ends has exit code 0.
  const int code = is("main-thread") ? 0 : 5;
  for (int number = 0; number < 20; ++number) {
    const pid_t pid = fork();
    HOLDS(pid >= 0);
    if (pid == 0) child(first, number);
    int status = 0;
    HOLDS(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != code)
      guest::broken(__FILE__, __LINE__, "a child's status", status);
  }
  guest::say("all children ended as they should");
  return 0;
}
