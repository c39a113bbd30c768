// Whether the process has what loading libculprit.so needs: its resource limits, its cgroups and its /proc.
#pragma once

#include <cstdint>
#include <string>

#include "report/attach/traced_process.h"

namespace culprit::report {

// Throws AttachError when there is too little address space (RLIMIT_AS), no descriptor (RLIMIT_NOFILE), no room for a
// dump (RLIMIT_FSIZE), or when a memory cgroup is so near its limit that loading could make the kernel end a process.
// Or when there is no /proc in the process's root, where the library reads about its own memory.
void check_limits(const TracedProcess& process, const std::string& control_groups = "/sys/fs/cgroup");

// Throws AttachError when its cgroup is frozen, so that no injected call would run.
void check_not_frozen(const TracedProcess& process, const std::string& control_groups = "/sys/fs/cgroup");

}  // namespace culprit::report
