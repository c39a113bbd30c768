// One live allocation of a group, for formats that show each one apart.
#pragma once

#include <cstdint>

namespace culprit::report {

struct SingleAllocation {
  std::uint64_t handle = 0;  // an address, or of arrays and VMM memory the driver's handle
  std::uint64_t bytes = 0;
};

}  // namespace culprit::report
