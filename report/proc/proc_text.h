// Reads files of /proc, which may vanish at any moment with their process or thread.
#pragma once

#include <string>

namespace culprit::report {

// The readable content of the file; empty when it is missing, may not be read, or vanishes while it is read (a stream
// of the standard library throws in that case). `error` receives 0, or the errno of open(). Thread-safe.
std::string read_proc_text(const std::string& path, int* error = nullptr);

}  // namespace culprit::report
