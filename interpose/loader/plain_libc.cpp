// libc's functions under their own names, for the inside of libculprit.so only (see also plain_memory.c): system calls
// are made directly, and functions that only libc can provide are looked up in libc's own symbol table. So neither this
// library's code nor libunwind imports a function; tests/process/imports_test.cpp lists the remaining imports.
//
// errno is libc's, as the callers expect. Nothing here is a cancellation point.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"
#include "interpose/system/auxiliary.h"
#include "interpose/system/raw_calls.h"

#pragma GCC visibility push(hidden)

// ---- functions that only libc can provide ----------------------------------------------------------------------

namespace {

// A function of libc, found at the first call. Concurrent searches find the same.
template <typename Function>
Function* of_libc(void** known, const char* name, const char* other_name = nullptr) {
  static char none;
  void* found = __atomic_load_n(known, __ATOMIC_RELAXED);
  if (found == nullptr) {
    std::uint64_t address = culprit::libc_function(name);
    if (address == 0 && other_name != nullptr) address = culprit::libc_function(other_name);
    found = address != 0 ? reinterpret_cast<void*>(address) : &none;
    __atomic_store_n(known, found, __ATOMIC_RELAXED);
  }
  return found == &none ? nullptr : reinterpret_cast<Function*>(found);
}

long with_errno(long result) {
  if (result >= 0 || result < -4095) return result;
  errno = static_cast<int>(-result);
  return -1;
}

}  // namespace

extern "C" {

// Called in every hook that records.
int* __errno_location() noexcept {
  CULPRIT_AT_LOAD static void* known;
  static __thread int own __attribute__((tls_model("initial-exec")));
  auto* function = of_libc<int*()>(&known, "__errno_location");
  return function != nullptr ? function() : &own;
}

CULPRIT_LOADING int pthread_key_create(pthread_key_t* key, void (*destructor)(void*)) noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int(pthread_key_t*, void (*)(void*))>(&known, "pthread_key_create", "__pthread_key_create");
  return real != nullptr ? real(key, destructor) : ENOSYS;
}

int pthread_key_delete(pthread_key_t key) noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int(pthread_key_t)>(&known, "pthread_key_delete");
  return real != nullptr ? real(key) : ENOSYS;
}

int pthread_setspecific(pthread_key_t key, const void* value) noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int(pthread_key_t, const void*)>(&known, "pthread_setspecific");
  return real != nullptr ? real(key, value) : ENOSYS;
}

int pthread_setcancelstate(int state, int* before) {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int(int, int*)>(&known, "pthread_setcancelstate");
  return real != nullptr ? real(state, before) : ENOSYS;
}

pthread_t pthread_self() noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<pthread_t()>(&known, "pthread_self");
  return real != nullptr ? real() : 0;
}

// Passes libc's signal return function to the kernel, which requires one.
int sigaction(int number, const struct sigaction* action, struct sigaction* before) noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int(int, const struct sigaction*, struct sigaction*)>(&known, "sigaction", "__sigaction");
  return real != nullptr ? real(number, action, before) : static_cast<int>(with_errno(-ENOSYS));
}

int __libc_current_sigrtmin() noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int()>(&known, "__libc_current_sigrtmin");
  return real != nullptr ? real() : 34;
}

int __libc_current_sigrtmax() noexcept {
  CULPRIT_AT_LOAD static void* known;
  auto* real = of_libc<int()>(&known, "__libc_current_sigrtmax");
  return real != nullptr ? real() : 64;
}

// ---- system calls ----------------------------------------------------------------------------------------------

long syscall(long number, ...) noexcept {
  long a[6];
  va_list list;
  va_start(list, number);
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  return with_errno(culprit::raw_call(number, a[0], a[1], a[2], a[3], a[4], a[5]));
}

pid_t getpid() noexcept { return static_cast<pid_t>(culprit::system_call(SYS_getpid)); }
pid_t getppid() noexcept { return static_cast<pid_t>(culprit::system_call(SYS_getppid)); }
int sched_yield() noexcept { return static_cast<int>(culprit::system_call(SYS_sched_yield)); }
int uname(struct utsname* name) noexcept { return static_cast<int>(with_errno(culprit::system_call(SYS_uname, name))); }

int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  unsigned mode = va_arg(list, unsigned);
  va_end(list);
  return static_cast<int>(with_errno(culprit::system_call(SYS_openat, AT_FDCWD, path, flags, mode)));
}
int close(int fd) { return static_cast<int>(with_errno(culprit::system_call(SYS_close, fd))); }
ssize_t read(int fd, void* to, size_t bytes) { return with_errno(culprit::system_call(SYS_read, fd, to, bytes)); }
ssize_t write(int fd, const void* from, size_t bytes) {
  return with_errno(culprit::system_call(SYS_write, fd, from, bytes));
}
// struct stat is the kernel's own on x86-64 and aarch64.
int fstat(int fd, struct stat* status) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_fstat, fd, status)));
}
int stat(const char* path, struct stat* status) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_newfstatat, AT_FDCWD, path, status, 0)));
}
// The names by which the headers of glibc before 2.33 call these two.
int __fxstat(int, int fd, struct stat* status) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_fstat, fd, status)));
}
int __xstat(int, const char* path, struct stat* status) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_newfstatat, AT_FDCWD, path, status, 0)));
}
int access(const char* path, int mode) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_faccessat, AT_FDCWD, path, mode)));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_unlinkat, AT_FDCWD, path, 0)));
}
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0)));
}
ssize_t readlink(const char* path, char* to, size_t bytes) noexcept {
  return with_errno(culprit::system_call(SYS_readlinkat, AT_FDCWD, path, to, bytes));
}
// Only into the caller's own buffer.
char* getcwd(char* to, size_t bytes) noexcept {
  return with_errno(culprit::system_call(SYS_getcwd, to, bytes)) < 0 ? nullptr : to;
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return reinterpret_cast<void*>(
      with_errno(culprit::system_call(SYS_mmap, address, bytes, protection, flags, fd, offset)));
}
int munmap(void* address, size_t bytes) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_munmap, address, bytes)));
}
int mprotect(void* address, size_t bytes, int protection) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_mprotect, address, bytes, protection)));
}
int madvise(void* address, size_t bytes, int advice) noexcept {
  return static_cast<int>(with_errno(culprit::system_call(SYS_madvise, address, bytes, advice)));
}
void* mremap(void* address, size_t bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list list;
  va_start(list, flags);
  void* new_address = va_arg(list, void*);
  va_end(list);
  return reinterpret_cast<void*>(
      with_errno(culprit::system_call(SYS_mremap, address, bytes, new_bytes, flags, new_address)));
}
int prctl(int option, ...) noexcept {
  unsigned long a[4];
  va_list list;
  va_start(list, option);
  for (unsigned long& argument : a) argument = va_arg(list, unsigned long);
  va_end(list);
  return static_cast<int>(with_errno(culprit::system_call(SYS_prctl, option, a[0], a[1], a[2], a[3])));
}
int getrlimit(__rlimit_resource_t resource, struct rlimit* limit) noexcept {
  return static_cast<int>(
      with_errno(culprit::system_call(SYS_prlimit64, 0, static_cast<int>(resource), nullptr, limit)));
}

long sysconf(int name) noexcept {
  culprit::loaded_late();  // then auxiliary_value() asks libc
  if (name == _SC_PAGESIZE) return static_cast<long>(culprit::auxiliary_value(AT_PAGESZ));
  if (name == _SC_CLK_TCK) {
    auto ticks = static_cast<long>(culprit::auxiliary_value(AT_CLKTCK));
    return ticks > 0 ? ticks : 100;
  }
  return with_errno(-EINVAL);
}
int getpagesize() noexcept { return static_cast<int>(sysconf(_SC_PAGESIZE)); }

// ---- the rest --------------------------------------------------------------------------------------------------

int sigemptyset(sigset_t* set) noexcept {
  memset(set, 0, sizeof(*set));
  return 0;
}
int sigfillset(sigset_t* set) noexcept {
  memset(set, 0xff, sizeof(*set));
  return 0;
}

// Called by libunwind for contradictory unwind tables, and by the compiler's stack check.
__attribute__((noreturn)) void abort() noexcept {
  culprit::system_call(SYS_tgkill, culprit::system_call(SYS_getpid), culprit::system_call(SYS_gettid), SIGABRT);
  for (;;) culprit::system_call(SYS_exit_group, 127);
}
__attribute__((noreturn)) void __stack_chk_fail() { abort(); }
}
#pragma GCC visibility pop
