// A copy of this process that does some work, or executes a command, and tells its parent through a pipe.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>

#include "report/base/descriptor.h"

namespace culprit::report {

struct ForkedChild {
  pid_t pid = -1;
  int error = 0;       // errno, if there is no child
  Descriptor message;  // the end to read from; it ends when the child ends, or executes a command
};

// Forks. The child calls `work` with the end of the pipe to write to, and ends with 126 if `work` returns or throws.
// The caller waits for its end (waitpid). In a process with several threads `work` may use malloc, which glibc keeps
// usable, and may take no other lock.
ForkedChild fork_child(const std::function<void(int pipe)>& work);

// In such a copy: closes all files but `pipe`. Another process may wait for the end of a pipe of the parent's for as
// long as the copy runs.
void close_all_but(int pipe);

// Writes all of it; false when that is not possible.
bool write_whole(int pipe, const void* data, std::size_t size);
// Reads until `data` is full; false when the pipe ends before.
bool read_whole(int pipe, void* data, std::size_t size);

}  // namespace culprit::report
