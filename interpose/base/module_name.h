// The file name of a module, by its path as the loader gives it. Async-signal-safe.
#pragma once

#include <cstring>
#include <initializer_list>

namespace culprit {

// Never nullptr: "" for a module without a path.
inline const char* file_name(const char* path) {
  const char* slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path == nullptr ? "" : path;
}

inline bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

// Whether a module is glibc's libc itself.
inline bool is_libc(const char* path) {
  return begins_with(file_name(path), "libc.so.6") || begins_with(file_name(path), "libc-2");
}

// Whether a module is a part of glibc, the loader included.
inline bool is_of_libc(const char* path) {
  for (const char* name : {"libc.so", "libc-2", "ld-linux", "libpthread", "libm.so", "libm-2", "libdl", "librt"}) {
    if (begins_with(file_name(path), name)) return true;
  }
  return false;
}

}  // namespace culprit
