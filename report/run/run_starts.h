// The processes of a run without a dump (interpose/format/run_starts.h).
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace culprit::report {

struct Report;

class RunStartsFile {
 public:
  // Makes the file in `folder`. Throws FileError.
  explicit RunStartsFile(const std::string& folder);

  // The variable of the environment that names the file to the library.
  std::pair<std::string, std::string> variable() const { return {"CULPRIT_RUN_STARTS", path_}; }

  // A report without content for each process that recorded nothing, with the reason in `dropped`. When there were more
  // than the file has entries for, one stands for the rest; and one for the processes that recorded without any of the
  // `found` dumps. Throws FileError.
  std::vector<Report> reports(std::size_t found) const;

 private:
  std::string path_;
};

}  // namespace culprit::report
