// What NVML's figures of this process tell about the calls between two of them. An answer may come too late, beside a
// neighbour that keeps the driver busy above all: the next figure then has the memory of each call since the last one,
// and what they took is known if they were of one kind, or if the readings of free memory agree with it.
//
// Measured calls are not all that changes the process's bytes: an allocation takes whole blocks of the driver, and a
// pool keeps memory. So each figure has a mark, which those change, and only figures with the same mark are compared.
//
// Not thread-safe. All zeros: no figure yet.
#pragma once

#include <cstdint>

#include "interpose/format/dump_balance.h"

namespace culprit {

class OwnFigures {
 public:
  struct Figure {
    std::int64_t bytes;  // of the process by NVML, less those of its records
    std::uint64_t mark;
  };

  // The calls without a figure, once there is one.
  struct Settled {
    bool known;                                      // `bytes` are theirs
    bool doubtful;                                   // they were given bytes, which no figure confirmed
    std::uint16_t kinds;                             // of doubtful ones: a bit for each DriverMemory
    std::uint32_t not_given;                         // calls that were given none
    std::int64_t bytes[format::kDriverMemoryKinds];  // by DriverMemory, beyond those that they were given
  };

  // The process has no context on the device, and no bytes there.
  void begin_at_nothing(std::uint64_t mark) {
    *this = {};
    known_ = true;
    mark_ = mark;
  }

  // Whether the last figure is still that of the process before the call that begins.
  bool is_known(std::uint64_t mark) const { return known_ && mark_ == mark; }
  bool has_unsettled() const { return kinds_ != 0; }
  std::uint16_t given_kinds() const { return given_kinds_; }

  // How much the process grew since the last figure, beyond what calls were given. Call if is_known().
  std::int64_t growth_until(const Figure& figure) const { return figure.bytes - bytes_ - given_; }

  // Calls of one kind have ended without a figure. `bytes`: by cuMemGetInfo, and `given` to them, or not.
  void add_unsettled(format::DriverMemory what, std::uint32_t calls, bool given, std::int64_t bytes) {
    const auto kind = static_cast<std::uint16_t>(1U << static_cast<unsigned>(what));
    kinds_ |= kind;
    if (given) {
      given_ += bytes;
      given_kinds_ |= kind;
    } else {
      not_given_ += calls;
      seen_[static_cast<std::size_t>(what)] += bytes;
    }
  }

  // Calls of these kinds have ended without any reading.
  void add_unread(std::uint16_t kinds) {
    kinds_ |= kinds;
    unread_ = true;
  }

  // Bytes of those calls that count as of other kinds.
  void add_given(std::uint16_t kinds, std::int64_t bytes) {
    if (!has_unsettled()) return;
    given_ += bytes;
    given_kinds_ |= kinds;
  }

  // A figure while no measured call is under way. `last_call`: bytes of a call that ended just now, which the figure
  // has, too.
  Settled settle(const Figure& figure, std::int64_t last_call) {
    Settled settled = {};
    if (has_unsettled()) {
      settled.not_given = not_given_;
      settled.kinds = given_kinds_;
      if (is_known(figure.mark)) share(growth_until(figure) - last_call, &settled);
      settled.doubtful = !settled.known && given_kinds_ != 0;
    }
    *this = {};
    known_ = true;
    bytes_ = figure.bytes;
    mark_ = figure.mark;
    return settled;
  }

  // Bytes of the process went away with a context.
  Settled forget() {
    Settled settled = {};
    settled.not_given = not_given_;
    settled.kinds = given_kinds_;
    settled.doubtful = given_kinds_ != 0;
    *this = {};
    return settled;
  }

 private:
  // Which calls the process's growth belongs to. Those of one kind have it all. Those of several have what cuMemGetInfo
  // showed, if that adds up to the growth: then no other process disturbed a reading.
  void share(std::int64_t growth, Settled* settled) const {
    // Nothing but the end of something makes the process smaller, and that is no call of these kinds.
    constexpr std::int64_t kLowest = -(4 << 20);
    settled->known = growth == 0;
    if (settled->known) return;
    if ((kinds_ & (kinds_ - 1)) == 0) {
      settled->known = given_ + growth >= kLowest;
      settled->bytes[__builtin_ctz(kinds_)] = growth;
      return;
    }
    bool possible = !unread_;
    for (const std::int64_t bytes : seen_) {
      possible = possible && bytes >= kLowest;
      growth -= bytes;
    }
    settled->known = possible && growth == 0;
    if (!settled->known) return;
    for (std::size_t kind = 0; kind < format::kDriverMemoryKinds; ++kind) settled->bytes[kind] = seen_[kind];
  }

  bool known_;
  bool unread_;                // a call since the last figure has no reading
  std::uint16_t kinds_;        // of the calls since the last figure
  std::uint16_t given_kinds_;  // of those that were given bytes
  std::uint32_t not_given_;
  std::int64_t bytes_;                             // of the last figure
  std::int64_t given_;                             // since then
  std::int64_t seen_[format::kDriverMemoryKinds];  // by cuMemGetInfo since then, and not given
  std::uint64_t mark_;
};

constexpr std::uint16_t bit_of(format::DriverMemory what) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(what));
}

}  // namespace culprit
