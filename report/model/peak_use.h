// The highest use of a device's memory, as far as it is known.
#pragma once

#include <cstdint>
#include <vector>

namespace culprit::report {

struct DeviceInfo;

struct PeakUse {
  std::uint64_t bytes = 0;           // the larger of the next two; 0: nothing is known
  std::uint64_t read_bytes = 0;      // in use by all processes, a reading of cuMemGetInfo; 0: none
  std::uint64_t recorded_bytes = 0;  // allocated by this process and recorded
};

PeakUse peak_use(const DeviceInfo& device);

// The most that the process had allocated of one device; 0: not known.
std::uint64_t most_recorded_use(const std::vector<DeviceInfo>& devices);

}  // namespace culprit::report
