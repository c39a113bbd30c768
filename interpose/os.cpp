#include "interpose/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "interpose/restrictions.h"

namespace culprit {
namespace {

int system_open(const char* path, int flags, unsigned mode) {
  long fd;
  do {
    fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  } while (fd < 0 && errno == EINTR);
  return fd < 0 ? -errno : static_cast<int>(fd);
}

int system_close(int fd) { return syscall(SYS_close, fd) < 0 ? -errno : 0; }

int system_identify(int fd, FileId* id) {
  struct stat status;
  if (fstat(fd, &status) != 0) return -errno;
  id->device = status.st_dev;
  id->inode = status.st_ino;
  id->bytes = static_cast<std::uint64_t>(status.st_size);
  return 0;
}

std::int64_t system_file_mode(const char* path) {
  struct stat status;
  return stat(path, &status) != 0 ? -errno : static_cast<std::int64_t>(status.st_mode);
}

int system_duplicate_from(int fd, int least) {
  long high = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least);
  return high < 0 ? -errno : static_cast<int>(high);
}

int system_reserve(int fd, std::uint64_t offset, std::uint64_t bytes) {
  int error;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (error == EINTR);
  return -error;
}

std::uint64_t system_limit(int resource) {
  const char* row = resource == RLIMIT_AS       ? "Max address space "
                    : resource == RLIMIT_DATA   ? "Max data size "
                    : resource == RLIMIT_FSIZE  ? "Max file size "
                    : resource == RLIMIT_NOFILE ? "Max open files "
                                                : nullptr;
  // Not prlimit64: a filter that kills may be in force by now, and opening and reading files is what any allows.
  char text[2048];
  if (row != nullptr && read_small_file("/proc/self/limits", text, sizeof(text)) != 0) {
    const char* place = std::strstr(text, row);
    if (place == nullptr) return ~0ULL;
    for (place += std::strlen(row); *place == ' '; ++place) {
    }
    return *place < '0' || *place > '9' ? ~0ULL : std::strtoull(place, nullptr, 10);  // or "unlimited"
  }
  struct rlimit limit;
  if (calls_restricted() || syscall(SYS_prlimit64, 0, resource, nullptr, &limit) != 0) return ~0ULL;
  return limit.rlim_cur;
}

void* system_map(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset,
                 int* error) {
  void* mapped = mmap(address, bytes, protection, flags, fd, static_cast<off_t>(offset));
  if (mapped != MAP_FAILED) return mapped;
  *error = errno;
  return nullptr;
}

void system_unmap(void* address, std::uint64_t bytes) { munmap(address, bytes); }

void* system_remap(void* address, std::uint64_t old_bytes, std::uint64_t bytes, void* target, bool stay, int* error) {
  const int flags = (stay ? 0 : MREMAP_MAYMOVE) | (target != nullptr ? MREMAP_FIXED : 0);
  long moved = syscall(SYS_mremap, address, old_bytes, bytes, flags, target);
  if (moved != -1) return reinterpret_cast<void*>(moved);
  *error = errno;
  return nullptr;
}

void system_unlock(void* address, std::uint64_t bytes) { syscall(SYS_munlock, address, bytes); }

int system_advise(void* address, std::uint64_t bytes, int advice) {
  return madvise(address, bytes, advice) != 0 ? -errno : 0;
}

std::int64_t system_read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) {
  long count = syscall(SYS_pread64, fd, to, bytes, offset);
  return count < 0 ? -errno : count;
}

std::int64_t system_read_own_memory(void* to, std::uint64_t address, std::uint64_t bytes) {
  if (calls_restricted_now()) {
    const int fd = system_open("/proc/self/mem", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return fd;
    const std::int64_t got = system_read_at(fd, to, bytes, address);
    system_close(fd);
    return got == -EIO ? -EFAULT : got;
  }
  struct iovec local = {to, bytes};
  struct iovec remote = {reinterpret_cast<void*>(address), bytes};
  long count = syscall(SYS_process_vm_readv, getpid(), &local, 1, &remote, 1, 0);
  return count < 0 ? -errno : count;
}

int system_membarrier(int command) {
  return calls_restricted_now() ? -EPERM : syscall(SYS_membarrier, command, 0, 0) != 0 ? -errno : 0;
}

}  // namespace

// clang-format off
OsCalls os = {system_open,   system_close,   system_identify, system_file_mode, system_duplicate_from,
              system_reserve, system_limit,  system_map,      system_unmap,     system_remap,
              system_unlock, system_advise,  system_read_at,  system_read_own_memory, system_membarrier};
// clang-format on

std::size_t read_small_file(const char* path, char* buffer, std::size_t capacity) {
  buffer[0] = '\0';
  int fd = system_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  std::size_t total = 0;
  while (total + 1 < capacity) {
    long count = syscall(SYS_read, fd, buffer + total, capacity - 1 - total);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
  }
  system_close(fd);
  buffer[total] = '\0';
  return total;
}

namespace {

FileId stderr_at_load;
bool had_stderr = false;

// Waits until all of a message can be written at once (PIPE_BUF bytes for a pipe): never for ever, since the reader may
// have stopped, and not at all when it has gone.
bool stderr_takes_text() {
  struct pollfd waited = {STDERR_FILENO, POLLOUT, 0};
  struct timespec second = {1, 0};
  long ready;
  do {
    ready = syscall(SYS_ppoll, &waited, 1, &second, nullptr, 0);  // counts `second` down
  } while (ready < 0 && errno == EINTR);
  return ready == 1 && waited.revents == POLLOUT;
}

// A write that found no reader left a SIGPIPE for this thread, which has it blocked. It is taken away, unless one of
// the program's own was waiting already.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &kPipe, &before_, sizeof(kPipe));
    blocked_before_ = (before_ & kPipe) != 0;
  }
  ~NoPipeSignal() {
    if (broken_ && !blocked_before_) {
      const struct timespec now = {0, 0};
      syscall(SYS_rt_sigtimedwait, &kPipe, nullptr, &now, sizeof(kPipe));
    }
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;
  void note_broken() { broken_ = true; }

 private:
  static constexpr std::uint64_t kPipe = 1ULL << (SIGPIPE - 1);
  std::uint64_t before_ = 0;
  bool blocked_before_ = false;
  bool broken_ = false;
};

}  // namespace

void remember_stderr() { had_stderr = os.identify(STDERR_FILENO, &stderr_at_load) == 0; }

void write_stderr(const char* text, std::size_t bytes) {
  FileId now;
  if (!had_stderr || os.identify(STDERR_FILENO, &now) != 0 || !now.same_file(stderr_at_load)) return;
  NoPipeSignal guard;
  while (bytes > 0 && stderr_takes_text()) {
    long count = syscall(SYS_write, STDERR_FILENO, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EPIPE) guard.note_broken();
    if (count <= 0) return;
    text += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

// By a futex that nobody wakes: a filter that knows threads knows it.
void sleep_briefly() {
  std::uint32_t nobody = 0;
  const struct timespec time = {0, 100000};
  syscall(SYS_futex, &nobody, FUTEX_WAIT_PRIVATE, 0, &time, nullptr, 0);
}

void prepare_to_meet_threads() { os.membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

bool meet_other_threads() {
  if (os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  prepare_to_meet_threads();  // a fork child may have to say again that it wants to
  return os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace culprit
