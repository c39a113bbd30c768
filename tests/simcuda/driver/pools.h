// Stream-ordered memory: pools keep freed memory until they are trimmed, or until a synchronization finds them above
// their release threshold.
#pragma once

#include <cstdint>

#include "tests/simcuda/driver/driver_state.h"

namespace simcuda {

struct Pool : Object {
  static constexpr ObjectType kType = ObjectType::kPool;
  Pool() : Object(kType) {}
  void release(DriverState& state) override;

  int device = 0;
  bool is_default = false;
  bool on_host = false;       // its memory is no memory of the device
  bool dying = false;         // destroyed by the program; deleted when its last allocation is freed
  Pool* exporter = nullptr;   // an imported pool: the location of its memory
  std::uint64_t foreign = 0;  // an imported pool of another process: its name there
  CUmemPoolProps properties{};
  std::uint64_t release_threshold = 0;
  std::uint64_t reserved = 0;  // charged to the device
  std::uint64_t reserved_high = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t live = 0;     // allocations
  std::uint64_t maximum = 0;  // 0 = up to the device's memory
  int reuse[3] = {1, 1, 1};   // follow event dependencies, opportunistic, internal dependencies
  std::map<int, CUmemAccess_flags> access;
};

Pool* make_default_pool(DriverState& state, Device& device);
// Frees idle memory of the pool down to `keep` bytes.
void trim_pool(DriverState& state, Pool& pool, std::uint64_t keep);
// To be called when an allocation of the pool ends.
void note_pool_free(DriverState& state, Pool& pool, std::size_t bytes);
// To be called at a synchronization of the device: pools above their threshold release memory.
void synchronize_pools(DriverState& state, int device);

}  // namespace simcuda
