// Facts from the cgroups of a process: whether its memory is full, and whether it is frozen.
#pragma once

#include <cstdint>
#include <string>

namespace culprit::report {

// `membership`: the text of the process's file /proc/PID/cgroup. `root`: where the cgroups are mounted.

// The least memory that is left for `needed` bytes in the cgroups of a process: "" when they have room, else which one
// has none.
std::string full_control_group(const std::string& membership, const std::string& root, std::uint64_t needed);

// The group that is frozen, so that its processes do not run: of a container that was paused; "" for none.
std::string frozen_control_group(const std::string& membership, const std::string& root);

}  // namespace culprit::report
