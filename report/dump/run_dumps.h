// Where the dumps of one `culprit run` go, and how they are found again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit {

// A folder of its own in $TMPDIR that only this user can read; removed with all its contents at the end. Throws
// std::runtime_error when it cannot be made.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// `pattern` of CULPRIT_OUT as seen from any working directory: a relative one is put below this process's.
std::string absolute_pattern(const std::string& pattern);

// The files that processes started since `since_realtime_ns` wrote after `pattern` (numbered suffixes included), oldest
// first. Files that are no dumps are left out.
std::vector<std::string> find_dumps(const std::string& pattern, std::uint64_t since_realtime_ns);

}  // namespace culprit
