// The file name of a module, by its path as the loader gives it. Async-signal-safe.
#pragma once

#include <cstring>

namespace culprit {

// Never nullptr: "" for a module without a path.
inline const char* file_name(const char* path) {
  const char* slash = path == nullptr ? nullptr : std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path == nullptr ? "" : path;
}

inline bool begins_with(const char* text, const char* prefix) {
  return std::strncmp(text, prefix, std::strlen(prefix)) == 0;
}

}  // namespace culprit
