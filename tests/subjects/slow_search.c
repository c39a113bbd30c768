// Preloaded into `culprit attach`: counts its reads of /proc/PID/pagemap, and sends SIGKILL to it when there are more
// than MOST_READS. NO_PAGE_SCAN=1: the kernel is one before 6.7, without PAGEMAP_SCAN. HANG_IN_SEARCH=1: the first look
// at the pages waits for ever, as a file system that does not answer does. SEARCH_MS: it takes so many milliseconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#define PAGEMAP_SCAN 0xc0606610UL

static int is_set(const char* name) { return getenv(name) != NULL; }

static void wait_if_wanted(void) {
  static int is_late;
  while (is_set("HANG_IN_SEARCH")) sleep(1000);
  if (is_set("SEARCH_MS") && !is_late++) usleep((useconds_t)atoi(getenv("SEARCH_MS")) * 1000);
}

ssize_t pread64(int file, void* data, size_t bytes, off64_t offset) {
  static int reads;
  static ssize_t (*real)(int, void*, size_t, off64_t);
  if (real == NULL) real = (ssize_t(*)(int, void*, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
  // Reads of files by libelf are shorter.
  if (bytes >= 65536) wait_if_wanted();
  if (bytes >= 65536 && is_set("MOST_READS") && ++reads > atoi(getenv("MOST_READS"))) kill(getpid(), SIGKILL);
  return real(file, data, bytes, offset);
}

ssize_t pread(int file, void* data, size_t bytes, off_t offset) { return pread64(file, data, bytes, offset); }

int ioctl(int file, unsigned long request, ...) {
  va_list list;
  va_start(list, request);
  void* argument = va_arg(list, void*);
  va_end(list);
  int (*real)(int, unsigned long, void*) = (int (*)(int, unsigned long, void*))dlsym(RTLD_NEXT, "ioctl");
  if (request == PAGEMAP_SCAN) {
    wait_if_wanted();
    if (is_set("NO_PAGE_SCAN")) return errno = ENOTTY, -1;
  }
  return real(file, request, argument);
}
