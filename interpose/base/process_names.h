// What this process and its machine are called. By readlink(2) and uname(2), or from files of /proc where a seccomp
// filter may kill for those.
#pragma once

#include <cstddef>

namespace culprit {

// The path of the running program. Returns its length, 0 when it is not known; `path` is terminated in any case.
std::size_t program_path(char* path, std::size_t capacity);

// The name of the host, "unknown" when the kernel does not say. Terminated in any case, and cut when it is too long.
void host_name(char* name, std::size_t capacity);

}  // namespace culprit
