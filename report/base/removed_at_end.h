// Files and folders of this process that do not outlive it, also when a signal ends it.
#pragma once

#include <string>

namespace culprit::report {

// Names a file or folder (with all its content, three levels deep) that is removed when SIGHUP, SIGINT, SIGQUIT,
// SIGPIPE or SIGTERM ends this process while the object exists. A signal that is ignored or handled stays so. The
// destructor removes nothing. At most eight at a time: later ones are not removed. Not thread-safe.
class RemovedAtEnd {
 public:
  explicit RemovedAtEnd(const std::string& path);
  ~RemovedAtEnd();
  RemovedAtEnd(const RemovedAtEnd&) = delete;
  RemovedAtEnd& operator=(const RemovedAtEnd&) = delete;

 private:
  std::string path_;
  int slot_ = -1;
};

}  // namespace culprit::report
