// A copy of the dump at one moment, made while the program runs: `culprit report` reads it like any dump.
#pragma once

namespace culprit {

struct Process;

// Writes the copy to `path`, through a temporary file in the same folder. An existing file is replaced only if it is a
// dump. Returns 0 or an errno; EEXIST: the existing file is not a dump. Never allocates. Thread-safe.
int write_snapshot(Process& process, const char* path);

}  // namespace culprit
