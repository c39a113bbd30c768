// Copies the dump of a process while the process writes it: a snapshot, as culprit_snapshot() makes it inside the
// process.
#pragma once

#include <cstdint>
#include <string>

namespace culprit::report {

struct LiveProcess;

// Copies the dump at `from` to the file `to`, which is complete or is not there. `start_realtime_ns`: of the process
// whose dump it must be. Records that change meanwhile are left out. The copy of a running process's dump is marked as
// a snapshot of `now_ns`; 0: it is copied as it is. Throws DumpError when `from` is no dump of that process, and
// FileError when `to` cannot be written.
void copy_dump(const std::string& from, const std::string& to, std::uint64_t start_realtime_ns, std::uint64_t now_ns);

// Copies the dump of a process into the working directory, under a name that no file has, and returns the name. Throws
// like copy_dump().
std::string save_snapshot(const LiveProcess& process);

}  // namespace culprit::report
