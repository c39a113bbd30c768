// The processes of one `culprit run` that could not make their dump: a file of fixed size, made by the command and
// named by CULPRIT_FAILED_STARTS. The library maps it and stores an entry, which a full disk or a file size limit
// cannot prevent.
#pragma once

#include <cstdint>

namespace culprit::format {

constexpr std::uint32_t kFailedStartsVersion = 1;

struct FailedStart {
  std::int32_t pid;    // stored last; 0: the entry is not complete
  std::int32_t error;  // an errno
  char path[4096];     // of the dump that could not be made; NUL-terminated
};

struct FailedStarts {
  static constexpr std::uint32_t kEntries = 15;
  std::uint32_t version;
  std::uint32_t count;  // of processes, also those beyond kEntries
  FailedStart entries[kEntries];
};

}  // namespace culprit::format
