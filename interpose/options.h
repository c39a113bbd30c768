// The options of libculprit.so, read from the environment once, at the first CUDA call.
#pragma once

#include <cstdint>

namespace culprit {

enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug };

struct Options {
#define OPTION_TEXT(member, variable, value, help) char member[1024];
#define OPTION_NUMBER(member, variable, value, least, most, help) int member;
#define OPTION_BYTES(member, variable, value, least, most, help) std::uint64_t member;
#define OPTION_FLAG(member, variable, value, help) bool member;
#include "interpose/options.def"
  LogLevel log_level;
  bool search_holders;
  // The first variable whose value could not be used (its default stands instead), nullptr if all were fine.
  const char* malformed;
};

// Reads the environment. Never allocates.
void read_options(Options* options);

// Expands the pattern `out` into an absolute path. Unknown % sequences stay as they are; a path that does not fit is
// cut off. Returns its length.
int expand_path(const char* pattern, int pid, char* path, int capacity);

}  // namespace culprit
