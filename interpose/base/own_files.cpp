#include "interpose/base/own_files.h"

#include <errno.h>
#include <fcntl.h>

#include "interpose/base/raw_calls.h"
#include "interpose/base/text_writer.h"

namespace culprit {

int open_plainly(const char* path, int flags, unsigned mode) {
  long fd;
  do {
    fd = system_call(SYS_openat, AT_FDCWD, path, flags, mode);
  } while (fd == -EINTR);
  return static_cast<int>(fd);
}

namespace {

std::size_t read_and_close(int fd, char* buffer, std::size_t capacity) {
  buffer[0] = '\0';
  if (fd < 0) return 0;
  std::size_t total = 0;
  while (total + 1 < capacity) {
    long count = system_call(SYS_read, fd, buffer + total, capacity - 1 - total);
    if (count == -EINTR) continue;
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
  }
  system_call(SYS_close, fd);
  buffer[total] = '\0';
  return total;
}

}  // namespace

std::size_t read_small_file(const char* path, char* buffer, std::size_t capacity) {
  return read_and_close(open_plainly(path, O_RDONLY | O_CLOEXEC, 0), buffer, capacity);
}

int open_own_file(int (*open_file)(const char*, int, unsigned), const char* name, int flags) {
  char path[64];
  TextWriter(path, sizeof(path)) << "/proc/thread-self/" << name;
  const int fd = open_file(path, flags | O_CLOEXEC, 0);
  if (fd != -ENOENT) return fd;
  TextWriter(path, sizeof(path)) << "/proc/self/" << name;  // a kernel before 3.17
  return open_file(path, flags | O_CLOEXEC, 0);
}

std::size_t read_own_file(const char* name, char* buffer, std::size_t capacity) {
  return read_and_close(open_own_file(open_plainly, name, O_RDONLY), buffer, capacity);
}

}  // namespace culprit
