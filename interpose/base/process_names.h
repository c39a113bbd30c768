// The names of this process and its machine: from readlink(2) and uname(2), or from files in /proc when a seccomp
// filter may kill the process for those calls.
#pragma once

#include <cstddef>

namespace culprit {

// The path of the running program. Returns its length, 0 when it is not known; `path` is terminated in any case.
std::size_t program_path(char* path, std::size_t capacity);

// The name of the host, "unknown" when it cannot be read. Always terminated; cut when it is too long.
void host_name(char* name, std::size_t capacity);

}  // namespace culprit
