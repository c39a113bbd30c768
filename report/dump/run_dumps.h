// Where the dumps of one `culprit run` are written, and how they are found.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

// A folder in $TMPDIR that only this user can read; removed with all its contents by the destructor. Throws
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

// A `pattern` of CULPRIT_OUT that works from any working directory: a relative one is put below this process's.
std::string absolute_pattern(const std::string& pattern);

// The dumps after `pattern` (numbered suffixes included) of processes started since `since_realtime_ns`, oldest first.
// Files that are not dumps are left out.
std::vector<std::string> find_dumps(const std::string& pattern, std::uint64_t since_realtime_ns);

}  // namespace culprit::report
