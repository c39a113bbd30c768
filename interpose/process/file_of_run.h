// The files that `culprit run` makes beside that of run_starts.h: each has a fixed size and begins with a version.
#pragma once

#include <cstdint>

namespace culprit {

// Maps the file whose name is `run_starts` and `ending`, shared, and not in fork children. nullptr: there is none, it
// is shorter than `bytes`, which would raise SIGBUS, or of another version. Keeps errno. Thread- and signal-safe; on
// the tracker's own stack only.
void* map_file_of_run(const char* run_starts, const char* ending, std::uint64_t bytes, std::uint32_t version);

template <typename File>
File* map_file_of_run(const char* run_starts, const char* ending, std::uint32_t version) {
  return static_cast<File*>(map_file_of_run(run_starts, ending, sizeof(File), version));
}

}  // namespace culprit
