// The file of a view, beside the dump.
#pragma once

#include <cstdint>

namespace culprit {

// Writes `bytes` to `dump` + ".python.json", through a temporary file. Returns false when it cannot be written, and
// under a seccomp filter. Never allocates; on the tracker's own stack only.
bool write_view(const char* dump, const char* text, std::uint64_t bytes);

// Keeps the path of the latest snapshot, cut at 4095 bytes. Thread-safe.
void keep_snapshot_path(const char* path);

// write_view() beside the latest snapshot.
bool write_snapshot_view(const char* text, std::uint64_t bytes);

}  // namespace culprit
