// A folder for the files of one command.
#pragma once

#include <optional>
#include <string>

#include "report/base/descriptor.h"
#include "report/base/removed_at_end.h"

namespace culprit::report {

// A folder in $TMPDIR that only this user can read. The destructor removes it with all its contents, and so does a
// signal that ends this process. Folders that a process killed with SIGKILL left behind are removed by the next
// constructor. Throws std::runtime_error when it cannot be made.
class CommandFolder {
 public:
  CommandFolder();
  ~CommandFolder();
  CommandFolder(const CommandFolder&) = delete;
  CommandFolder& operator=(const CommandFolder&) = delete;

  const std::string& path() const { return path_; }
  // From now on the folder stays.
  void keep();

 private:
  std::string path_;
  Descriptor lock_;  // shows other processes that the folder is in use
  std::optional<RemovedAtEnd> at_end_;
};

}  // namespace culprit::report
