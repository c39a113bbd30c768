// A copy of the dump as it stands, made while the program runs on: `culprit report` reads it like any other.
#pragma once

namespace culprit {

struct Process;

// Writes the copy to `path`, by way of a temporary file beside it. A file that is there is replaced only when it is a
// dump. Returns 0 or an errno; EEXIST: something else is there. Never allocates. Thread-safe.
int write_snapshot(Process& process, const char* path);

}  // namespace culprit
