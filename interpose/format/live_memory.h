// The live memory of a device by its sort, as a balance has it: added up by the recorder when it takes a balance, and
// by a reader for a process that runs.
#pragma once

#include <cstdint>

#include "interpose/format/device_bytes.h"
#include "interpose/format/dump_balance.h"

namespace culprit {

class LiveMemory {
 public:
  // A live allocation of the device.
  void add(const format::AllocationRecord& record) {
    const std::uint64_t bytes = physical_bytes(record);
    switch (record.kind) {
      case format::Kind::kDevice:
      case format::Kind::kPitched:
      case format::Kind::kArray:
      case format::Kind::kMipmappedArray:
        allocated_ += bytes;
        if (bytes >= kLarge) {
          in_blocks_ += round_up(bytes, kBlock);
        } else {
          small_ += round_up(bytes, kSmallUnit);
        }
        break;
      case format::Kind::kVmmPhysical:
        physical_ += bytes;
        break;
      case format::Kind::kManaged:
        managed_ += bytes;
        break;
      case format::Kind::kStreamOrdered:
        from_pools_ += bytes;
        break;
      case format::Kind::kGraphMemory:
        from_graphs_ += bytes;
        break;
      case format::Kind::kGraphExec:
        add_executable(record);
        break;
      default:
        break;
    }
  }
  void write(format::BalanceRecord* balance) const {
    balance->allocated = allocated_;
    balance->in_blocks = in_blocks_ + round_up(small_, kBlock);
    balance->physical = physical_;
    balance->managed = managed_;
    balance->from_pools = from_pools_;
    balance->from_graphs = from_graphs_;
    balance->executables = executables_;
    balance->executables_bytes = executables_bytes_;
  }

 private:
  static constexpr std::uint64_t kBlock = 2 << 20;     // in which the driver takes memory for cuMemAlloc
  static constexpr std::uint64_t kLarge = kBlock / 2;  // from this size on an allocation has blocks of its own
  static constexpr std::uint64_t kSmallUnit = 512;     // of the sizes of others

  // An executable whose context ended takes no memory, and no call can use it.
  void add_executable(const format::AllocationRecord& record) {
    const std::uint64_t taken = __atomic_load_n(&record.extra, __ATOMIC_RELAXED);
    if (taken == format::kContextGone) return;
    if (executables_ != ~std::uint32_t{0}) ++executables_;
    executables_bytes_ += taken;
  }

  static std::uint64_t round_up(std::uint64_t bytes, std::uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

  std::uint64_t allocated_ = 0;
  std::uint64_t in_blocks_ = 0;
  std::uint64_t small_ = 0;
  std::uint64_t physical_ = 0;
  std::uint64_t managed_ = 0;
  std::uint64_t from_pools_ = 0;
  std::uint64_t from_graphs_ = 0;
  std::uint32_t executables_ = 0;
  std::uint64_t executables_bytes_ = 0;
};

}  // namespace culprit
