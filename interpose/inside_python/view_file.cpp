#include "interpose/inside_python/view_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "interpose/base/text_writer.h"
#include "interpose/system/descriptors.h"
#include "interpose/system/os.h"
#include "interpose/system/restrictions.h"
#include "interpose/system/spin_lock.h"

namespace culprit {
namespace {

SpinLock snapshot_lock;
char snapshot_path[4096];

// Raw system calls, because write() is a cancellation point.
bool write_all(int fd, const char* text, std::uint64_t bytes) {
  while (bytes > 0) {
    const long written = syscall(SYS_write, fd, text, bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    bytes -= static_cast<std::uint64_t>(written);
  }
  return true;
}

}  // namespace

bool write_view(const char* dump, const char* text, std::uint64_t bytes) {
  // A dump that is a device (CULPRIT_OUT=/dev/null), or that the program removed, gets no file beside it.
  struct stat status;
  if (calls_restricted_now() || stat(dump, &status) != 0 || !S_ISREG(status.st_mode)) return false;
  char path[4200];
  char part[4240];
  TextWriter name(path, sizeof(path));
  name << dump << ".python.json";
  TextWriter part_name(part, sizeof(part));
  part_name << path << "." << static_cast<int>(getpid()) << ".part";
  if (name.cut() || part_name.cut()) return false;
  const int fd = open_high(part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600).fd;
  if (fd < 0) return false;
  const bool written = write_all(fd, text, bytes);
  os.close_file(fd);
  if (written && rename(part, path) == 0) return true;
  unlink(part);
  return false;
}

void keep_snapshot_path(const char* path) {
  SpinGuard guard(snapshot_lock);
  copy_text(snapshot_path, sizeof(snapshot_path), path);
}

bool write_snapshot_view(const char* text, std::uint64_t bytes) {
  char path[sizeof(snapshot_path)];
  {
    SpinGuard guard(snapshot_lock);
    copy_text(path, sizeof(path), snapshot_path);
  }
  return write_view(path, text, bytes);
}

}  // namespace culprit
