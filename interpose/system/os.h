// Every call into the operating system that recording depends on, behind one table, so that a unit test can make any of
// them fail. They are raw system calls (raw_calls.h): libc's wrappers are cancellation points, and a cancellation must
// not unwind a thread out of the tracker. No call allocates; errors are returned as -errno.
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace culprit {

struct FileId {
  std::uint64_t device;
  std::uint64_t inode;
  std::uint64_t bytes;  // the file's size
  std::uint32_t mode;   // st_mode
  bool same_file(const FileId& other) const { return device == other.device && inode == other.inode; }
};

struct OsCalls {
  // Opens `path` with open(2)'s flags. Returns a descriptor or -errno.
  int (*open_file)(const char* path, int flags, unsigned mode);
  int (*close_file)(int fd);
  // Identify an open file, or the file at `path` (follows links). Return 0 or -errno.
  int (*identify)(int fd, FileId* id);
  int (*identify_path)(const char* path, FileId* id);
  // fcntl(F_DUPFD_CLOEXEC): the same file under the lowest free number from `least` on. Returns it or -errno.
  int (*duplicate_from)(int fd, int least);
  // Reserves [offset, offset + bytes) on disk, so that access to its mapping cannot raise SIGBUS. Returns 0 or -errno.
  int (*reserve)(int fd, std::uint64_t offset, std::uint64_t bytes);
  // truncate(2): sets the size of the file at `path`; growth leaves a hole. Returns 0 or -errno.
  int (*resize)(const char* path, std::uint64_t bytes);
  // mkdir(2) with mode 0777 and the process's umask. Returns 0 or -errno.
  int (*make_folder)(const char* path);
  // The soft limit of a resource (RLIMIT_FSIZE, ...) as it is now; ~0 = none.
  std::uint64_t (*limit)(int resource);
  // prlimit(2) of this process: sets the limit to `wanted` (may be null) and stores the old one in `former` (may be
  // null). Returns 0 or -errno.
  int (*exchange_limit)(int resource, const struct rlimit* wanted, struct rlimit* former);
  // mmap(2). Returns nullptr on failure and stores the error.
  void* (*map)(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset, int* error);
  void (*unmap)(void* address, std::uint64_t bytes);
  int (*protect)(void* address, std::uint64_t bytes, int protection);
  // mremap(2) from `old_bytes` (0: a second mapping of the same shared memory) to `bytes`: moved to `target`, or, when
  // that is nullptr, to any address unless `stay` is set. Returns nullptr on failure and stores the error.
  void* (*remap)(void* address, std::uint64_t old_bytes, std::uint64_t bytes, void* target, bool stay, int* error);
  // munlock(2).
  void (*unlock)(void* address, std::uint64_t bytes);
  int (*advise)(void* address, std::uint64_t bytes, int advice);
  // pread(2). Returns the number of bytes or -errno.
  std::int64_t (*read_at)(int fd, void* to, std::uint64_t bytes, std::uint64_t offset);
  // Copies this process's own memory up to the first unreadable byte, without raising a signal. Returns the number of
  // bytes, which may be fewer, or -errno: -EFAULT when the first byte is unreadable.
  std::int64_t (*read_own_memory)(void* to, std::uint64_t address, std::uint64_t bytes);
  // Writes a word into this process's own memory, also where it is read-only and sealed. Returns 0 or -errno.
  int (*write_own_word)(std::uint64_t address, std::uint64_t word);
  // Whether the program may write its four bytes at `address`, a multiple of 4. Stores what is there, at once, as an
  // atomic operation. Returns 0, -EFAULT (read-only, or nothing there), or another -errno when that cannot be told.
  int (*probe_write)(std::uint64_t address);
  // membarrier(2) without flags. Returns 0 or -errno. See meet_other_threads().
  int (*membarrier)(int command);
  // futex(2): FUTEX_WAIT or FUTEX_WAKE, or the same with _PRIVATE. Keeps errno. A wait ends after `microseconds` at the
  // latest.
  void (*futex)(const std::uint32_t* word, int operation, std::uint32_t value, std::uint32_t microseconds);
  // Blocks all signals of the calling thread except those of faults. This includes libc's internal signals
  // (cancellation, setuid), which libc's own function does not block. Returns the old mask for restore_signals(). Keeps
  // errno.
  std::uint64_t (*block_signals)();
  void (*restore_signals)(std::uint64_t mask);
};

// The calls in use. Only tests store here.
extern OsCalls os;

// Opens a file of this process in /proc (own_files.h): open_own_file("maps", O_RDONLY). Returns a descriptor or -errno.
int open_own_file(const char* name, int flags);

// Approximate. Not a cancellation point; keeps errno.
void sleep_microseconds(std::uint32_t microseconds);

// Remembers which file descriptor 2 is. Called when the library is loaded.
void remember_stderr();

// Writes one message to standard error, past EINTR; never a cancellation point. The message is dropped if descriptor 2
// is another file than at load (a daemon that closed it may have its database there), if the reader of a pipe is gone
// (the program would get a SIGPIPE), or if the reader takes no bytes for a second.
void write_stderr(const char* text, std::size_t bytes);

// A memory barrier of all threads (membarrier(2)): afterwards the caller sees the earlier stores of all threads, and
// their later loads see the caller's earlier stores. Returns false if the kernel lacks it (before 4.14) or forbids it;
// then wait some time instead.
//
// The kernel wants a registration first. It is instantaneous in a process with one thread, and waits 6 to 16 ms for all
// processors in one with several: prepare_to_meet_threads() is called before the driver starts its threads. Where the
// program had threads before, the first calls sleep for a millisecond, in which each processor has long made its stores
// visible. When those sleeps have cost as much as the registration, the process is registered.
bool meet_other_threads();
void prepare_to_meet_threads();
// Whether meet_other_threads() is possible: the kernel has membarrier(2), and permits it.
bool can_meet_other_threads();

}  // namespace culprit
