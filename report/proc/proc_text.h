// The files of /proc, which may be gone at any moment: with the process or the thread that they tell of.
#pragma once

#include <string>

namespace culprit {

// What can be read of the file; empty when it is not there, may not be read, or goes away while it is read (a stream of
// the standard library throws then). Thread-safe.
std::string read_proc_text(const std::string& path);

}  // namespace culprit
