#include "interpose/system/os.h"

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
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/system/kernel_clock.h"
#include "interpose/system/own_files.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

int system_close(int fd) { return static_cast<int>(system_call(SYS_close, fd)); }

int store_identity(long error, const struct stat& status, FileId* id) {
  if (error != 0) return static_cast<int>(error);
  *id = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size), status.st_mode};
  return 0;
}

int system_identify(int fd, FileId* id) {
  struct stat status;  // the kernel's own on both machines
  return store_identity(system_call(SYS_fstat, fd, &status), status, id);
}

int system_identify_path(const char* path, FileId* id) {
  struct stat status;
  return store_identity(system_call(SYS_newfstatat, AT_FDCWD, path, &status, 0), status, id);
}

int system_resize(const char* path, std::uint64_t bytes) {
  return static_cast<int>(system_call(SYS_truncate, path, bytes));
}

int system_make_folder(const char* path) { return static_cast<int>(system_call(SYS_mkdirat, AT_FDCWD, path, 0777)); }

int system_duplicate_from(int fd, int least) {
  return static_cast<int>(system_call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, least));
}

// For file systems without fallocate (NFS before 4.2, FAT): rewrites a byte of each block.
int reserve_by_writing(int fd, std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t end = offset + bytes;
  for (std::uint64_t last = (offset | (kBlockBytes - 1)); offset < end; last += kBlockBytes) {
    if (last >= end) last = end - 1;
    char byte = 0;
    long result;
    do {
      result = system_call(SYS_pread64, fd, &byte, 1, last);
      if (result >= 0) result = system_call(SYS_pwrite64, fd, &byte, 1, last);
    } while (result == -EINTR);
    if (result < 0) return static_cast<int>(result);
    offset = last + 1;
  }
  return 0;
}

int system_reserve(int fd, std::uint64_t offset, std::uint64_t bytes) {
  long error;
  do {
    error = system_call(SYS_fallocate, fd, 0, offset, bytes);
  } while (error == -EINTR);
  return error == -EOPNOTSUPP || error == -ENOSYS ? reserve_by_writing(fd, offset, bytes) : static_cast<int>(error);
}

// The number in a row of /proc/self/limits; ~0 = unlimited, or no such row.
std::uint64_t limit_in_row(const char* text, const char* row) {
  const char* place = std::strstr(text, row);
  if (place == nullptr) return ~0ULL;
  for (place += std::strlen(row); *place == ' '; ++place) {
  }
  return *place < '0' || *place > '9' ? ~0ULL : std::strtoull(place, nullptr, 10);
}

// The limits of memory, as they were less than 10 ms ago: each mapping asks for both, and to read them takes longer
// than the mapping. (The limit of files is never older: growing a file beyond it kills the process.)
struct MemoryLimits {
  std::atomic<std::uint64_t> tick;  // 0 = not read yet
  std::atomic<std::uint64_t> address_space;
  std::atomic<std::uint64_t> data;
};
MemoryLimits memory_limits;

std::uint64_t system_limit(int resource) {
  const char* row = resource == RLIMIT_AS       ? "Max address space "
                    : resource == RLIMIT_DATA   ? "Max data size "
                    : resource == RLIMIT_FSIZE  ? "Max file size "
                    : resource == RLIMIT_NOFILE ? "Max open files "
                                                : nullptr;
  // Not prlimit64: a seccomp filter may kill the process for it; every filter allows opening and reading files.
  std::atomic<std::uint64_t>* known = resource == RLIMIT_AS     ? &memory_limits.address_space
                                      : resource == RLIMIT_DATA ? &memory_limits.data
                                                                : nullptr;
  constexpr std::uint64_t kTenMs = 10000000;
  const std::uint64_t now = known == nullptr ? 0 : tick_ns() / kTenMs;
  if (known != nullptr && memory_limits.tick.load(std::memory_order_acquire) == now)
    return known->load(std::memory_order_relaxed);
  char text[2048];
  if (row != nullptr && read_own_file("limits", text, sizeof(text)) != 0) {
    if (known == nullptr) return limit_in_row(text, row);
    memory_limits.address_space.store(limit_in_row(text, "Max address space "), std::memory_order_relaxed);
    memory_limits.data.store(limit_in_row(text, "Max data size "), std::memory_order_relaxed);
    memory_limits.tick.store(now, std::memory_order_release);
    return known->load(std::memory_order_relaxed);
  }
  struct rlimit limit;
  if (calls_restricted() || system_call(SYS_prlimit64, 0, resource, nullptr, &limit) != 0) return ~0ULL;
  return limit.rlim_cur;  // NOLINT(clang-analyzer-core.uninitialized.UndefReturn): written by the system call
}

int system_exchange_limit(int resource, const struct rlimit* wanted, struct rlimit* former) {
  return static_cast<int>(system_call(SYS_prlimit64, 0, resource, wanted, former));
}

void* system_map(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset,
                 int* error) {
#if defined(CULPRIT_TSAN)
  // In a unit test: TSan must know that memory is new, and sees only libc's function.
  long mapped = reinterpret_cast<long>(mmap(address, bytes, protection, flags, fd, static_cast<off_t>(offset)));
  if (mapped == -1) mapped = -errno;
#else
  long mapped = system_call(SYS_mmap, address, bytes, protection, flags, fd, offset);
#endif
  if (mapped >= 0 || mapped < -4095) return reinterpret_cast<void*>(mapped);
  *error = static_cast<int>(-mapped);
  return nullptr;
}

void system_unmap(void* address, std::uint64_t bytes) {
#if defined(CULPRIT_TSAN)
  munmap(address, bytes);
#else
  system_call(SYS_munmap, address, bytes);
#endif
}

int system_protect(void* address, std::uint64_t bytes, int protection) {
  return static_cast<int>(system_call(SYS_mprotect, address, bytes, protection));
}

void* system_remap(void* address, std::uint64_t old_bytes, std::uint64_t bytes, void* target, bool stay, int* error) {
#if defined(CULPRIT_TSAN)
  // Likewise: TSan does not know mremap(). Its report would name the thread that had these addresses before.
  if (!stay) {
    const int fixed = target != nullptr ? MAP_FIXED : 0;
    target = mmap(target, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (target == MAP_FAILED) {
      *error = errno;
      return nullptr;
    }
  }
#endif
  const int flags = (stay ? 0 : MREMAP_MAYMOVE) | (target != nullptr ? MREMAP_FIXED : 0);
  long moved = system_call(SYS_mremap, address, old_bytes, bytes, flags, target);
  if (moved >= 0 || moved < -4095) return reinterpret_cast<void*>(moved);
#if defined(CULPRIT_TSAN)
  if (!stay) munmap(target, bytes);
#endif
  *error = static_cast<int>(-moved);
  return nullptr;
}

void system_unlock(void* address, std::uint64_t bytes) { system_call(SYS_munlock, address, bytes); }

int system_advise(void* address, std::uint64_t bytes, int advice) {
  return static_cast<int>(system_call(SYS_madvise, address, bytes, advice));
}

std::int64_t system_read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) {
  return system_call(SYS_pread64, fd, to, bytes, offset);
}

std::int64_t system_read_own_memory(void* to, std::uint64_t address, std::uint64_t bytes) {
  if (calls_restricted_now()) {
    const int fd = open_own_file("mem", O_RDONLY);
    if (fd < 0) return fd;
    const std::int64_t got = system_read_at(fd, to, bytes, address);
    system_close(fd);
    return got == -EIO ? -EFAULT : got;
  }
  struct iovec local = {to, bytes};
  struct iovec remote = {reinterpret_cast<void*>(address), bytes};
  // Not the process's number: its first thread has no memory when main() ended by pthread_exit().
  return system_call(SYS_process_vm_readv, system_call(SYS_gettid), &local, 1, &remote, 1, 0);
}

// The file reaches private memory that nothing in the process may write, as a debugger does. Some kernels forbid that
// (proc_mem.force_override).
int system_write_own_word(std::uint64_t address, std::uint64_t word) {
  if (calls_restricted_now()) return -EPERM;
  const int fd = open_own_file("mem", O_WRONLY);
  if (fd < 0) return fd;
  const long wrote = system_call(SYS_pwrite64, fd, &word, sizeof(word), address);
  system_close(fd);
  if (wrote < 0) return static_cast<int>(wrote);
  return wrote == static_cast<long>(sizeof(word)) ? 0 : -EIO;
}

// futex(2), FUTEX_WAKE_OP: stores (old | 0) at the second address, and wakes a thread that waits at the first one,
// where there is none; the comparison keeps it from waking one at the second.
int system_probe_write(std::uint64_t address) {
  const std::uint32_t never_waited_for = 0;
  const std::uint32_t or_nothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0xfff);
  const long woken = system_call(SYS_futex, &never_waited_for, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG, 0, nullptr,
                                 reinterpret_cast<std::uint32_t*>(address), or_nothing);
  return woken < 0 ? static_cast<int>(woken) : 0;
}

int system_membarrier(int command) {
  return calls_restricted_now() ? -EPERM : static_cast<int>(system_call(SYS_membarrier, command, 0, 0));
}

void system_futex(const std::uint32_t* word, int operation, std::uint32_t value, std::uint32_t microseconds) {
  struct timespec limit = {microseconds / 1000000, static_cast<long>(microseconds % 1000000) * 1000};
  const bool waits = operation == FUTEX_WAIT_PRIVATE || operation == FUTEX_WAIT;
  system_call(SYS_futex, word, operation, value, waits ? &limit : nullptr, nullptr, 0);
}

std::uint64_t set_signal_mask(std::uint64_t mask) {
  std::uint64_t before = 0;
  system_call(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &before, sizeof(mask));
  return before;
}

constexpr std::uint64_t mask_of(int signal) { return std::uint64_t{1} << (signal - 1); }

// Signals of faults stay unblocked: the kernel ends the process for a blocked one. Our own handler repairs a truncated
// dump (truncation_guard.h), and a filter's handler may make a system call for us (SIGSYS).
constexpr std::uint64_t kFaults =
    mask_of(SIGBUS) | mask_of(SIGSEGV) | mask_of(SIGFPE) | mask_of(SIGILL) | mask_of(SIGTRAP) | mask_of(SIGSYS);

CULPRIT_LOADING std::uint64_t system_block_signals() { return set_signal_mask(~kFaults); }

CULPRIT_LOADING void system_restore_signals(std::uint64_t mask) { set_signal_mask(mask); }

}  // namespace

OsCalls os = {
    open_plainly,      system_close,   system_identify,        system_identify_path,   system_duplicate_from,
    system_reserve,    system_resize,  system_make_folder,     system_limit,           system_exchange_limit,
    system_map,        system_unmap,   system_protect,         system_remap,           system_unlock,
    system_advise,     system_read_at, system_read_own_memory, system_write_own_word,  system_probe_write,
    system_membarrier, system_futex,   system_block_signals,   system_restore_signals,
};

int open_own_file(const char* name, int flags) { return open_own_file(os.open_file, name, flags); }

void sleep_microseconds(std::uint32_t microseconds) {
  const std::uint32_t never_woken = 0;
  os.futex(&never_woken, FUTEX_WAIT_PRIVATE, 0, microseconds);
}

namespace {

CULPRIT_AT_LOAD FileId stderr_at_load;
CULPRIT_AT_LOAD bool had_stderr = false;

// Waits until a whole message can be written at once (PIPE_BUF bytes for a pipe). The wait is limited, since the reader
// may have stopped; there is no wait when the reader is gone.
bool stderr_takes_text() {
  struct pollfd waited = {STDERR_FILENO, POLLOUT, 0};
  struct timespec second = {1, 0};
  long ready;
  do {
    ready = system_call(SYS_ppoll, &waited, 1, &second, nullptr, 0);  // counts `second` down
  } while (ready == -EINTR);
  return ready == 1 && waited.revents == POLLOUT;
}

// A write without a reader leaves a pending SIGPIPE for this thread, and one to a file of the largest size (ulimit -f)
// a SIGXFSZ; this thread blocks both. Removes them, unless the program blocks them itself: its own may be pending. On
// our own stack it is block_signals() that blocks them.
class NoSignalOfWrite {
 public:
  NoSignalOfWrite() { system_call(SYS_rt_sigprocmask, SIG_BLOCK, &kBoth, &before_, sizeof(kBoth)); }
  ~NoSignalOfWrite() {
    const std::uint64_t ours = before_ == kOnOwnStack ? raised_ : raised_ & ~before_;
    if (ours != 0) {
      const struct timespec now = {0, 0};
      system_call(SYS_rt_sigtimedwait, &ours, nullptr, &now, sizeof(ours));
    }
    system_call(SYS_rt_sigprocmask, SIG_SETMASK, &before_, nullptr, sizeof(before_));
  }
  NoSignalOfWrite(const NoSignalOfWrite&) = delete;
  NoSignalOfWrite& operator=(const NoSignalOfWrite&) = delete;
  // `error`: of the write.
  void note(long error) {
    if (error == -EPIPE) raised_ = mask_of(SIGPIPE);
    if (error == -EFBIG) raised_ = mask_of(SIGXFSZ);
  }

 private:
  static constexpr std::uint64_t kBoth = mask_of(SIGPIPE) | mask_of(SIGXFSZ);
  static constexpr std::uint64_t kOnOwnStack = ~(kFaults | mask_of(SIGKILL) | mask_of(SIGSTOP));
  std::uint64_t before_ = 0;
  std::uint64_t raised_ = 0;
};

}  // namespace

CULPRIT_LOADING void remember_stderr() { had_stderr = os.identify(STDERR_FILENO, &stderr_at_load) == 0; }

void write_stderr(const char* text, std::size_t bytes) {
  FileId now;
  if (!had_stderr || os.identify(STDERR_FILENO, &now) != 0 || !now.same_file(stderr_at_load)) return;
  // Not even a signal that the program blocks is left behind, where that can be known before.
  const bool regular = (now.mode & S_IFMT) == S_IFREG;
  const std::uint64_t limit = regular ? os.limit(RLIMIT_FSIZE) : ~std::uint64_t{0};
  if (limit != ~std::uint64_t{0} && now.bytes + bytes > limit) return;
  NoSignalOfWrite guard;
  while (bytes > 0 && stderr_takes_text()) {
    long count = system_call(SYS_write, STDERR_FILENO, text, bytes < PIPE_BUF ? bytes : PIPE_BUF);
    if (count == -EINTR) continue;
    guard.note(count);
    if (count <= 0) return;
    text += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void prepare_to_meet_threads() { os.membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

bool can_meet_other_threads() {
  constexpr int kNeeded = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED | MEMBARRIER_CMD_PRIVATE_EXPEDITED;
  const int commands = os.membarrier(MEMBARRIER_CMD_QUERY);
  return commands > 0 && (commands & kNeeded) == kNeeded;
}

bool meet_other_threads() {
  if (os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  constexpr std::uint32_t kSleeps = 16;
  static std::atomic<std::uint32_t> sleeps;
  if (threads_seen() != 1 && can_meet_other_threads() && sleeps.fetch_add(1, std::memory_order_relaxed) < kSleeps) {
    sleep_microseconds(1000);
    return true;
  }
  prepare_to_meet_threads();
  return os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

}  // namespace culprit
