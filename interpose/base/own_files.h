// Files of this process in /proc, and other small ones, read by plain system calls: also before os.h can be used. They
// are read as those of the calling thread: a main() that ended by pthread_exit() leaves a first thread without memory,
// names and folders, and /proc/self is that thread's.
#pragma once

#include <cstddef>

namespace culprit {

// open(2), repeated after EINTR. Returns a descriptor or -errno.
int open_plainly(const char* path, int flags, unsigned mode);

// Opens a file of this process by `open_file`, close-on-exec. Returns a descriptor or -errno.
int open_own_file(int (*open_file)(const char* path, int flags, unsigned mode), const char* name, int flags);

// Reads at most `capacity` - 1 bytes of `path` and terminates them with NUL. Returns the number of bytes, 0 on failure.
std::size_t read_small_file(const char* path, char* buffer, std::size_t capacity);
std::size_t read_own_file(const char* name, char* buffer, std::size_t capacity);

}  // namespace culprit
