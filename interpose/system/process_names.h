// The names of this process, its threads and its machine: from readlink(2) and uname(2), or from files in /proc when a
// seccomp filter may kill the process for those calls.
#pragma once

#include <cstddef>
#include <cstdint>

namespace culprit {

// The path of the running program. Returns its length, 0 when it is not known; `path` is terminated in any case.
std::size_t program_path(char* path, std::size_t capacity);

// The name of the host, "unknown" when it cannot be read. Always terminated; cut when it is too long.
void host_name(char* name, std::size_t capacity);

// The command line as the kernel has it, arguments separated by NUL. Returns its length, cut to `capacity` - 1; 0 when
// it is not known.
std::size_t command_line(char* text, std::size_t capacity);

// The three numbers and names that together tell this process from every other one with its process ID. 0 or empty when
// not known.
std::uint64_t start_time_ticks();  // since the boot
std::uint64_t pid_namespace();
void boot_id(char* text, std::size_t capacity);  // `capacity`: at least 38

// The name of up to 15 bytes that the operating system has for a thread, by the kernel's number; 0: the calling thread.
// Returns false when it is not known. Reads a file, which costs the kernel 35 us for a new thread.
bool thread_name(std::uint32_t thread, char* name, std::size_t capacity);

// The calling thread's name, of 16 bytes with its NUL: from prctl(2), unless a seccomp filter was seen.
bool quick_thread_name(char* name);

}  // namespace culprit
