// The kernel module of NVIDIA's driver, according to /proc/driver/nvidia/version, which every user may read.
#pragma once

#include <optional>
#include <string>

namespace culprit::report {

struct DriverModule {
  std::string version;       // "580.65.06"; empty: not known
  std::optional<bool> open;  // NVIDIA's open kernel modules; empty: not known
};

// `proc`: the path of /proc. Never throws.
DriverModule read_driver_module(const std::string& proc);

}  // namespace culprit::report
