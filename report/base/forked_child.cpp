#include "report/base/forked_child.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace culprit::report {

ForkedChild fork_child(const std::function<void(int pipe)>& work) {
  ForkedChild child;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    child.error = errno;
    return child;
  }
  child.message = Descriptor(ends[0]);
  const Descriptor writing(ends[1]);
  child.pid = ::fork();
  if (child.pid == 0) {
    child.message.close();
    try {
      work(writing.get());
    } catch (...) {  // no memory: the copy must not go on as if it were this process
    }
    ::_exit(126);
  }
  if (child.pid < 0) child.error = errno;
  return child;
}

void close_all_but(int pipe) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (standard == pipe) continue;
    if (nothing >= 0) {
      ::dup2(nothing, standard);
    } else {
      ::close(standard);
    }
  }
#ifdef SYS_close_range
  constexpr unsigned kFirst = STDERR_FILENO + 1;
  const auto kept = static_cast<unsigned>(pipe);
  if (kept > kFirst) ::syscall(SYS_close_range, kFirst, kept - 1, 0U);
  ::syscall(SYS_close_range, kept >= kFirst ? kept + 1 : kFirst, ~0U, 0U);
#endif
}

bool write_whole(int pipe, const void* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::write(pipe, static_cast<const char*>(data) + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool read_whole(int pipe, void* data, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::read(pipe, static_cast<char*>(data) + done, size - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace culprit::report
