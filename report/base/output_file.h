// Files that the command writes. A file is complete or is not there: its content goes to a temporary file beside it,
// which then takes its name.
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "report/base/removed_at_end.h"

namespace culprit::report {

class OutputFile {
 public:
  // Opens a temporary file of an unpredictable name (O_EXCL) beside `path`. What `path` links to is replaced, never the
  // link. A device, a pipe or a socket is written directly. A new file gets the permissions of the file `like`, if one
  // is named, else those of the umask. Throws FileError.
  explicit OutputFile(const std::string& path, std::string like = "");
  // Without commit(): removes the temporary file.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream() { return stream_; }
  // Call once, when everything is written. A file that existed keeps its permissions. Throws FileError when something
  // could not be written (a full disk); then the old file is as it was.
  void commit();

 private:
  [[noreturn]] void fail(int error);

  std::string name_;  // as the user gave it
  std::string path_;  // without links
  std::string like_;
  std::string temporary_;  // empty: path_ is written directly
  std::ofstream stream_;
  std::optional<RemovedAtEnd> at_end_;
};

// Checks, before long work, that OutputFile(path) can succeed, and that `path` is none of the files `inputs`. Throws
// FileError with a message that says what to do. An empty `path` is accepted.
void check_output_file(const std::string& path, const std::vector<std::string>& inputs);

}  // namespace culprit::report
