// Whether the process has the room that loading libculprit.so needs: its resource limits and its memory cgroup.
#pragma once

#include <cstdint>
#include <string>

#include "report/attach/traced_process.h"

namespace culprit::report {

// Throws AttachError when there is too little address space (RLIMIT_AS), no descriptor (RLIMIT_NOFILE), no room for a
// dump (RLIMIT_FSIZE), or when a memory cgroup is so near its limit that loading could make the kernel end a process.
void check_limits(const TracedProcess& process, const std::string& control_groups = "/sys/fs/cgroup");

// The least memory that is left for `needed` bytes in the cgroups of a process: "" when they have room, else which one
// has none. `membership`: the text of its file /proc/PID/cgroup. `root`: where the cgroups are mounted.
std::string full_control_group(const std::string& membership, const std::string& root, std::uint64_t needed);

}  // namespace culprit::report
