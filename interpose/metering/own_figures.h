// What NVML's figures of this process tell about the calls between two of them. An answer may come too late, beside a
// neighbour that keeps the driver busy above all: the next figure then has the memory of each call since the last one,
// and what they took is known if they were of one kind.
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
    bool known;                 // `bytes` is theirs
    bool doubtful;              // they were given bytes, which no figure confirmed
    format::DriverMemory what;  // of known ones
    std::uint16_t kinds;        // of doubtful ones: a bit for each DriverMemory
    std::int64_t bytes;         // beyond those that they were given
    std::uint32_t not_given;    // calls that were given none
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

  // Calls of these kinds have ended without a figure, and were given bytes by cuMemGetInfo, or none.
  void add_unsettled(std::uint16_t kinds, std::uint32_t calls, bool given, std::int64_t bytes) {
    kinds_ |= kinds;
    if (given) {
      given_ += bytes;
      given_kinds_ |= kinds;
    } else {
      not_given_ += calls;
    }
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
    constexpr std::int64_t kLowest = -(4 << 20);
    Settled settled = {};
    if (has_unsettled()) {
      const std::int64_t bytes = is_known(figure.mark) ? growth_until(figure) - last_call : 0;
      const bool agrees = is_known(figure.mark) && bytes == 0;
      settled.not_given = not_given_;
      settled.kinds = given_kinds_;
      // Nothing but the end of something makes the process smaller, and that is no call of this kind.
      settled.known = is_known(figure.mark) && (agrees || ((kinds_ & (kinds_ - 1)) == 0 && given_ + bytes >= kLowest));
      settled.doubtful = !settled.known && given_kinds_ != 0;
      settled.what = static_cast<format::DriverMemory>(__builtin_ctz(kinds_));
      settled.bytes = bytes;
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
  bool known_;
  std::uint16_t kinds_;        // of the calls since the last figure
  std::uint16_t given_kinds_;  // of those that were given bytes
  std::uint32_t not_given_;
  std::int64_t bytes_;  // of the last figure
  std::int64_t given_;  // since then
  std::uint64_t mark_;
};

constexpr std::uint16_t bit_of(format::DriverMemory what) {
  return static_cast<std::uint16_t>(1U << static_cast<unsigned>(what));
}

}  // namespace culprit
