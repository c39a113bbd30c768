// What PyTorch itself counts in its cache on one device.
#pragma once

#include <algorithm>
#include <cstdint>

namespace culprit::report {

struct CacheBytes {
  unsigned device = 0;          // as the process numbers them
  std::uint64_t reserved = 0;   // all segments
  std::uint64_t live = 0;       // in tensors
  std::uint64_t scattered = 0;  // free pieces of segments that have a tensor in them: they cannot be given back

  // In no tensor, the scattered bytes included.
  std::uint64_t idle() const { return reserved - std::min(live, reserved); }
};

}  // namespace culprit::report
