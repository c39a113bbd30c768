#include "report/proc/proc_text.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace culprit::report {

std::string read_proc_text(const std::string& path, int* error) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (error != nullptr) *error = fd < 0 ? errno : 0;
  if (fd < 0) return {};
  std::string text;
  char part[16384];
  for (;;) {
    const ssize_t count = ::read(fd, part, sizeof(part));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    text.append(part, static_cast<std::size_t>(count));
  }
  ::close(fd);
  return text;
}

}  // namespace culprit::report
