// Preloaded into `culprit attach`: sends SIGKILL to the injecting process after its DIE_AT-th request to the target,
// counted from 1. Requests that change nothing in the target are not counted. Successive PTRACE_SYSCALLs, which
// let an injected call run from one system call to the next, count as one request.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <unistd.h>

static int requests;
static int last_request;

static void count_request(int request) {
  const char* number = getenv("DIE_AT");
  if (request == PTRACE_SYSCALL && last_request == PTRACE_SYSCALL) return;
  last_request = request;
  if (number != NULL && ++requests == atoi(number)) kill(getpid(), SIGKILL);
}

long ptrace(enum __ptrace_request request, ...) {
  va_list list;
  va_start(list, request);
  const pid_t thread = va_arg(list, pid_t);
  void* address = va_arg(list, void*);
  void* data = va_arg(list, void*);
  va_end(list);
  long (*real)(enum __ptrace_request, ...) = (long (*)(enum __ptrace_request, ...))dlsym(RTLD_NEXT, "ptrace");
  const long result = real(request, thread, address, data);
  switch (request) {
    case PTRACE_SEIZE:
    case PTRACE_INTERRUPT:
    case PTRACE_CONT:
    case PTRACE_SYSCALL:
    case PTRACE_SETREGSET:
    case PTRACE_SETSIGMASK:
    case PTRACE_DETACH:
      count_request((int)request);
      break;
    default:
      break;
  }
  return result;
}

ssize_t process_vm_writev(pid_t process, const struct iovec* here, unsigned long heres, const struct iovec* there,
                          unsigned long theres, unsigned long flags) {
  ssize_t (*real)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long) =
      (ssize_t(*)(pid_t, const struct iovec*, unsigned long, const struct iovec*, unsigned long, unsigned long))dlsym(
          RTLD_NEXT, "process_vm_writev");
  const ssize_t result = real(process, here, heres, there, theres, flags);
  count_request(-1);
  return result;
}
