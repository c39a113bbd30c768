// The options of libculprit.so, read from the environment (variables.h) once, at the first CUDA call.
#pragma once

#include <cstdint>

namespace culprit {

enum class LogLevel { kOff, kError, kWarn, kInfo, kDebug };

class Variables;

// A variable of the environment whose value cannot be used.
struct RefusedOption {
  const char* variable;
  char value[64];  // cut if it is longer
  char used[16];   // the value used instead
};

struct Options {
  static constexpr std::size_t kPathBytes = 4096;  // PATH_MAX of Linux
#define OPTION_TEXT(member, variable, value, help) char member[1024];
#define OPTION_PATH(member, variable, value, help) char member[kPathBytes];
#define OPTION_NUMBER(member, variable, value, least, most, help) int member;
#define OPTION_BYTES(member, variable, value, least, most, help) std::uint64_t member;
#define OPTION_FLAG(member, variable, value, help) bool member;
#include "interpose/process/options.def"
  LogLevel log_level;
  bool search_holders;
  bool search_lost;
  bool paths_cut;  // a path of a variable is longer than kPathBytes
  // Variables with unusable values, except CULPRIT_SIGNAL: see recording_switch.cpp.
  static constexpr int kMostRefused = 16;
  int refused_count;
  RefusedOption refused[kMostRefused];
};

// How long one search at exit may take.
inline std::uint64_t longest_search_ns(const Options& options) {
  return static_cast<std::uint64_t>(options.scan_seconds) * 1'000'000'000;
}

void read_options(const Variables& variables, Options* options);

// CULPRIT_LOG alone, for messages before the options are read. On the tracker's own stack only.
LogLevel chosen_log_level();

// Expands the pattern `out` into an absolute path. Unknown % sequences stay as they are. Returns false when the path
// does not fit and is cut off.
bool expand_path(const char* pattern, int pid, const Variables& variables, char* path, std::size_t capacity);

}  // namespace culprit
