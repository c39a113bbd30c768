#include "report/model/peak_use.h"

#include <algorithm>

#include "report/model/run_facts.h"

namespace culprit::report {

PeakUse peak_use(const DeviceInfo& device) {
  PeakUse use;
  if (device.peak.free_bytes < device.peak.total_bytes)
    use.read_bytes = device.peak.total_bytes - device.peak.free_bytes;
  use.recorded_bytes = std::max(device.time_line.peak_bytes, device.peak_live_bytes);
  use.bytes = std::max(use.read_bytes, use.recorded_bytes);
  return use;
}

std::uint64_t most_recorded_use(const std::vector<DeviceInfo>& devices) {
  std::uint64_t most = 0;
  for (const DeviceInfo& device : devices) most = std::max(most, peak_use(device).recorded_bytes);
  return most;
}

}  // namespace culprit::report
