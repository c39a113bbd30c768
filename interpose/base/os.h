// Every call into the operating system that recording depends on, behind one table, so that a unit test can make any of
// them fail. Raw system calls (raw_calls.h): libc's wrappers are cancellation points, and a thread that is being
// cancelled must not be unwound from inside the tracker. None of them allocates, and all keep to the errno-style result
// "negative = -errno".
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
  // An open file, or what `path` names, links followed. Returns 0 or -errno.
  int (*identify)(int fd, FileId* id);
  int (*identify_path)(const char* path, FileId* id);
  // fcntl(F_DUPFD_CLOEXEC): the same file under the lowest free number from `least` on. Returns it or -errno.
  int (*duplicate_from)(int fd, int least);
  // Reserves [offset, offset + bytes) on disk, so that touching a mapping of it can not raise SIGBUS. Returns 0 or
  // -errno.
  int (*reserve)(int fd, std::uint64_t offset, std::uint64_t bytes);
  // truncate(2): makes what `path` names so long, with a hole where it grew. Returns 0 or -errno.
  int (*resize)(const char* path, std::uint64_t bytes);
  // The soft limit of a resource (RLIMIT_FSIZE, ...) as it is now; ~0 = none.
  std::uint64_t (*limit)(int resource);
  // prlimit(2) of this process: stores `wanted` (may be null), after what was there went to `former` (may be null).
  // Returns 0 or -errno.
  int (*exchange_limit)(int resource, const struct rlimit* wanted, struct rlimit* former);
  // mmap(2). Returns nullptr on failure and stores the error.
  void* (*map)(void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset, int* error);
  void (*unmap)(void* address, std::uint64_t bytes);
  int (*protect)(void* address, std::uint64_t bytes, int protection);
  // mremap(2) from `old_bytes` (0: a second mapping of the same shared memory) to `bytes`: to `target`, or, when that
  // is nullptr, to anywhere unless it must stay. Returns nullptr on failure and stores the error.
  void* (*remap)(void* address, std::uint64_t old_bytes, std::uint64_t bytes, void* target, bool stay, int* error);
  // munlock(2).
  void (*unlock)(void* address, std::uint64_t bytes);
  int (*advise)(void* address, std::uint64_t bytes, int advice);
  // pread(2). Returns the number of bytes or -errno.
  std::int64_t (*read_at)(int fd, void* to, std::uint64_t bytes, std::uint64_t offset);
  // Copies this process's own memory; what can not be read ends the copy instead of raising a signal. Returns the
  // number of bytes, which may be fewer, or -errno: -EFAULT when the first byte can not be read.
  std::int64_t (*read_own_memory)(void* to, std::uint64_t address, std::uint64_t bytes);
  // membarrier(2) without flags. Returns 0 or -errno. See meet_other_threads().
  int (*membarrier)(int command);
  // futex(2), FUTEX_WAIT_PRIVATE or FUTEX_WAKE_PRIVATE. Leaves errno alone. A wait ends after `microseconds` at the
  // latest.
  void (*futex)(const std::uint32_t* word, int operation, std::uint32_t value, std::uint32_t microseconds);
  // Blocks every signal of the calling thread but those of faults, those of libc itself (cancellation, setuid)
  // included, which libc's own function leaves out. Returns the mask as it was, for restore_signals(). Leaves errno
  // alone.
  std::uint64_t (*block_signals)();
  void (*restore_signals)(std::uint64_t mask);
};

// The calls in use. Only tests store here.
extern OsCalls os;

// Reads at most `capacity` - 1 bytes of `path` and terminates them with NUL. Returns the number of bytes, 0 on failure.
std::size_t read_small_file(const char* path, char* buffer, std::size_t capacity);

// Remembers what descriptor 2 is. Called when the library is loaded.
void remember_stderr();

// Writes one message to standard error, past EINTR; never a cancellation point. Nothing is written unless descriptor 2
// is still what it was at load: a daemon that closed it may have its database there. Nothing either when the reader of
// a pipe has gone (the program would get a SIGPIPE of ours) or does not take anything for a second.
void write_stderr(const char* text, std::size_t bytes);

// Every other thread's stores are visible here afterwards, and what was stored here to their next loads. False on a
// kernel that has no such barrier (before 4.14) or forbids it; then give it time. The first time costs milliseconds
// where there are other threads: prepare_to_meet_threads() takes that on itself.
bool meet_other_threads();
void prepare_to_meet_threads();

}  // namespace culprit
