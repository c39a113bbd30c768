// Puts libculprit.so where a process can open it.
#pragma once

#include <string>

#include "report/attach/traced_process.h"

namespace culprit::report {

// libculprit.so at a path that the process can open: its own, or in a container with other files a copy, which is
// removed after loading.
class LibraryForTarget {
 public:
  // Throws AttachError when there is no place for a copy, or when the file has a name by which it would not be found in
  // the process.
  LibraryForTarget(const TracedProcess& process, const std::string& library);
  ~LibraryForTarget() { remove(); }
  LibraryForTarget(const LibraryForTarget&) = delete;
  LibraryForTarget& operator=(const LibraryForTarget&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string copy_to(const TracedProcess& process, const std::string& library, const std::string& place);
  void remove();

  std::string path_;
  std::string folder_;
};

}  // namespace culprit::report
