// The processes of a run that could not make their dump, and so recorded nothing (interpose/format/failed_starts.h).
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;

class FailedStartsFile {
 public:
  // Makes the file in `folder`. Throws FileError.
  explicit FailedStartsFile(const std::string& folder);

  // For CULPRIT_FAILED_STARTS.
  const std::string& path() const { return path_; }

  // A report without content for each process that recorded nothing, with the reason in `dropped`. When there were more
  // than the file has entries for, the last one stands for the rest. Throws FileError.
  std::vector<Report> reports() const;

 private:
  std::string path_;
};

}  // namespace culprit::report
