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

}  // namespace culprit::report
