// The processes of one `culprit run`: a file of fixed size, made by the command and named by CULPRIT_RUN_STARTS. The
// library maps it when recording starts, and counts the process there: a full disk or a file size limit cannot prevent
// that. So the command knows of processes without a dump.
#pragma once

#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kRunStartsVersion = 1;

// A process that could not make its dump.
struct FailedStart {
  std::int32_t pid;    // stored last; 0: the entry is not complete
  std::int32_t error;  // an errno
  char program[512];   // NUL-terminated, as the path
  char path[4096];     // of the dump
};

struct RunStarts {
  static constexpr std::uint32_t kEntries = 15;
  std::uint32_t version;
  std::uint32_t recording;  // processes that made their dump
  std::uint32_t failed;     // processes that could not, also those beyond kEntries
  std::uint32_t reserved;
  FailedStart entries[kEntries];
};

}  // namespace culprit::format
