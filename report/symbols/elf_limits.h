// Which ELF files libdw may be given. A dump names programs and they name debug files, so a stranger chooses them all:
// libdw unpacks a file of gigabytes from one of megabytes, and reads the same bytes for each of ten thousand headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace culprit::report {

// Why libdw must not read this open file: "it is no ELF file", ...; "" when it may. `split`: of a split unit (.dwo).
// Thread-safe; the file's position stays.
std::string problem_of_elf(int fd, bool split = false);

// The size of an xz stream after expansion, from the headers of its chunks; nothing when it is none.
std::optional<std::uint64_t> expanded_xz_bytes(const void* data, std::size_t bytes);

}  // namespace culprit::report
