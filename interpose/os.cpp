#include "interpose/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

#include "interpose/raw_calls.h"

namespace culprit {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

int system_open(const char* path, int flags, unsigned mode) {
  long fd;
  do {
    fd = system_call(SYS_openat, AT_FDCWD, path, flags, mode);
  } while (fd == -EINTR);
  return static_cast<int>(fd);
}

int system_close(int fd) { return static_cast<int>(system_call(SYS_close, fd)); }

int system_identify(int fd, FileId* id) {
  struct stat status;  // the kernel's own on both machines
  long error = system_call(SYS_fstat, fd, &status);
  if (error != 0) return static_cast<int>(error);
  id->device = status.st_dev;
  id->inode = status.st_ino;
  return 0;
}

// Where the file system can not reserve (NFS before 4.2, FAT): a byte of each block, written back as it is.
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

std::uint64_t system_file_size_limit() {
  struct rlimit limit;
  if (system_call(SYS_prlimit64, 0, RLIMIT_FSIZE, nullptr, &limit) != 0) return ~0ULL;
  return limit.rlim_cur;  // RLIM_INFINITY is the largest number
}

void* system_map(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset,
                 int* error) {
  long mapped = system_call(SYS_mmap, address, bytes, protection, flags, fd, offset);
  if (mapped >= 0 || mapped < -4095) return reinterpret_cast<void*>(mapped);
  *error = static_cast<int>(-mapped);
  return nullptr;
}

void system_unmap(void* address, std::uint64_t bytes) { system_call(SYS_munmap, address, bytes); }

int system_advise(void* address, std::uint64_t bytes, int advice) {
  return static_cast<int>(system_call(SYS_madvise, address, bytes, advice));
}

std::int64_t system_read_at(int fd, void* to, std::uint64_t bytes, std::uint64_t offset) {
  return system_call(SYS_pread64, fd, to, bytes, offset);
}

std::int64_t system_read_own_memory(void* to, std::uint64_t address, std::uint64_t bytes) {
  struct iovec local = {to, bytes};
  struct iovec remote = {reinterpret_cast<void*>(address), bytes};
  return system_call(SYS_process_vm_readv, system_call(SYS_getpid), &local, 1, &remote, 1, 0);
}

int system_membarrier(int command) { return static_cast<int>(system_call(SYS_membarrier, command, 0, 0)); }

}  // namespace

OsCalls os = {system_open,  system_close,  system_identify, system_reserve,         system_file_size_limit, system_map,
              system_unmap, system_advise, system_read_at,  system_read_own_memory, system_membarrier};

std::size_t read_small_file(const char* path, char* buffer, std::size_t capacity) {
  buffer[0] = '\0';
  int fd = system_open(path, O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return 0;
  std::size_t total = 0;
  while (total + 1 < capacity) {
    long count = system_call(SYS_read, fd, buffer + total, capacity - 1 - total);
    if (count == -EINTR) continue;
    if (count <= 0) break;
    total += static_cast<std::size_t>(count);
  }
  system_close(fd);
  buffer[total] = '\0';
  return total;
}

void sleep_for_ns(std::uint64_t nanoseconds) {
  struct timespec time = {static_cast<time_t>(nanoseconds / 1000000000), static_cast<long>(nanoseconds % 1000000000)};
  system_call(SYS_nanosleep, &time, nullptr);
}

void write_stderr(const char* text, std::size_t bytes) {
  while (bytes > 0) {
    long count = system_call(SYS_write, 2, text, bytes);
    if (count == -EINTR) continue;
    if (count <= 0) return;
    text += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void prepare_to_meet_threads() { os.membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

bool meet_other_threads() {
  if (os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0) return true;
  prepare_to_meet_threads();  // a fork child may have to say again that it wants to
  return os.membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) == 0;
}

void* map_private(std::uint64_t bytes, int* error) {
  void* memory = os.map(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, error);
  if (memory != nullptr) os.advise(memory, bytes, MADV_DONTFORK);
  return memory;
}

}  // namespace culprit
