// Opens the files that culprit reads: the only way to them, whether a user named them or they lie beside a dump.
//
// Only regular files are opened, because a FIFO blocks for ever, a device may never end, and opening some of them has
// effects. /dev/stdin is no exception: no command is documented to read it.
#pragma once

#include <cstdint>
#include <string>

#include "report/base/descriptor.h"

namespace culprit::report {

struct InputFile {
  Descriptor file;  // not open: see `problem`
  std::uint64_t bytes = 0;
  int error = 0;        // errno of the attempt; 0: it was opened, or it is no regular file
  std::string problem;  // "cannot be read (No such file or directory)", "is not a regular file"; "" when it is open
};

// Opens a regular file for reading, without ever blocking. Thread-safe, never throws FileError.
InputFile open_input(const std::string& path);

// Like open_input(), for a file below the folder after all links and ".." are followed. Other files are not opened at
// all, and `problem` has the reason: for names that a stranger chose. A hard link is a file of the folder that it lies
// in.
InputFile open_input_below(const std::string& folder, const std::string& path);

// The path of an open file without links; "" when it is not known.
std::string real_path(const Descriptor& file);

// The content of the file. Throws FileError, whose message names the file.
std::string read_input(const std::string& path);
std::string read_input(const InputFile& input, const std::string& path);  // that open_input(path) returned

// Reads the first `bytes` bytes. False when the file cannot be read or is shorter.
bool read_beginning(const std::string& path, void* data, std::size_t bytes);

}  // namespace culprit::report
