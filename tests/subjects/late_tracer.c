// Preloaded into `culprit attach`, which then does its work late, as on a machine that is busy:
//   FINISHED_MS  so many milliseconds pass after it has read that a call has finished
//   STOP_MS      the first stop of a thread is not seen for so many milliseconds
//   BACK_MS      nor are, each after so many, the first stops by which a thread is restored after that first call
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static struct timespec asked;    // when the first thread was asked to stop
static struct timespec resumed;  // when a thread was resumed last
static int has_finished;
static enum __ptrace_request last;

static long milliseconds(const char* name) {
  const char* value = getenv(name);
  return value != NULL ? atol(value) : 0;
}

static long milliseconds_since(const struct timespec* begin) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (now.tv_sec - begin->tv_sec) * 1000 + (now.tv_nsec - begin->tv_nsec) / 1000000;
}

long ptrace(enum __ptrace_request request, ...) {
  va_list list;
  va_start(list, request);
  const pid_t thread = va_arg(list, pid_t);
  void* address = va_arg(list, void*);
  void* data = va_arg(list, void*);
  va_end(list);
  if (request == PTRACE_INTERRUPT && asked.tv_sec == 0) clock_gettime(CLOCK_MONOTONIC, &asked);
  if (request == PTRACE_SYSCALL || request == PTRACE_CONT) clock_gettime(CLOCK_MONOTONIC, &resumed);
  last = request;
  long (*real)(enum __ptrace_request, pid_t, void*, void*) =
      (long (*)(enum __ptrace_request, pid_t, void*, void*))dlsym(RTLD_NEXT, "ptrace");
  return real(request, thread, address, data);
}

ssize_t process_vm_readv(pid_t pid, const struct iovec* local, unsigned long count, const struct iovec* remote,
                         unsigned long remote_count, unsigned long flags) {
  ssize_t (*real)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long) =
      (ssize_t(*)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long))dlsym(
          RTLD_NEXT, "process_vm_readv");
  const ssize_t got = real(pid, local, count, remote, remote_count, flags);
  // The word that is stored at the end of a call, while its thread runs.
  if (last == PTRACE_CONT && got == sizeof(int) && *(const int*)local->iov_base != 0) {
    has_finished = 1;
    usleep((useconds_t)milliseconds("FINISHED_MS") * 1000);
  }
  return got;
}

pid_t waitpid(pid_t pid, int* status, int options) {
  static int is_seen;
  static int back;
  if (asked.tv_sec != 0 && !is_seen && milliseconds_since(&asked) < milliseconds("STOP_MS")) return 0;
  is_seen = asked.tv_sec != 0;
  // The first stop after the call takes the thread out of it.
  const int is_to_restore = has_finished && back < 4 && (last == PTRACE_SYSCALL || last == PTRACE_CONT);
  if (is_to_restore && back != 0 && milliseconds_since(&resumed) < milliseconds("BACK_MS")) return 0;
  pid_t (*real)(pid_t, int*, int) = (pid_t(*)(pid_t, int*, int))dlsym(RTLD_NEXT, "waitpid");
  const pid_t found = real(pid, status, options);
  if (is_to_restore && found > 0) ++back;
  return found;
}
