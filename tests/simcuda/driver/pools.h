// Stream-ordered memory: pools keep what was freed until they are trimmed or a synchronization finds them above their
// release threshold.
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
  bool dying = false;        // destroyed by the program; goes when its last allocation is freed
  Pool* exporter = nullptr;  // an imported pool: where its memory is
  CUmemPoolProps properties{};
  std::uint64_t release_threshold = 0;
  std::uint64_t reserved = 0;  // charged to the device
  std::uint64_t reserved_high = 0;
  std::uint64_t used = 0;
  std::uint64_t used_high = 0;
  std::uint64_t live = 0;     // allocations
  std::uint64_t maximum = 0;  // 0 = as much as the device has
  int reuse[3] = {1, 1, 1};   // follow event dependencies, opportunistic, internal dependencies
  std::map<int, CUmemAccess_flags> access;
};

Pool* make_default_pool(DriverState& state, Device& device);
// Frees idle memory of the pool down to `keep` bytes.
void trim_pool(DriverState& state, Pool& pool, std::uint64_t keep);
// An allocation of the pool ended.
void note_pool_free(DriverState& state, Pool& pool, std::size_t bytes);
// What a synchronization of the device does to its pools: those above their threshold give memory back.
void synchronize_pools(DriverState& state, int device);

}  // namespace simcuda
