// The history of the rows that are watched, in room of a fixed size for each row, however long it takes: times, the
// least and the most that was live between them, and how much of each time of birth was still live at some moments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace culprit::report {

// The time since the watch began is cut into parts of equal length; part 0 is all of the time before.
struct BirthScale {
  static constexpr std::size_t kParts = 65;

  double begin = 0;
  double width = 1;
  std::size_t part_of(double born) const {
    if (born < begin) return 0;
    const auto part = static_cast<std::size_t>((born - begin) / width) + 1;
    return part < kParts ? part : kParts - 1;
  }
  double begin_of(std::size_t part) const { return begin + width * (static_cast<double>(part) - 1); }
};

// Survivors by their time of birth: bytes, or objects.
using Births = std::vector<float>;  // BirthScale::kParts; empty: times of birth are not known

// One row at one moment.
struct RowSample {
  double live = 0;         // bytes, or objects
  std::uint64_t made = 0;  // calls so far; 0: not known
  Births births;
};

struct RowHistory {
  std::vector<double> low;  // by History::times()
  std::vector<double> high;
  std::vector<Births> survivors;  // by History::survivor_times()
  RowSample last;
};

// Not thread-safe.
class History {
 public:
  // Begins a sample. `seconds`: since any moment, later than those of earlier samples. Births are to be counted on the
  // scale that is valid from then on.
  const BirthScale& begin(double seconds);
  // The history of a row, which may be new. Rows keep their numbers.
  std::size_t add_row();
  void set(std::size_t row, RowSample sample) { next_[row] = std::move(sample); }
  // Ends the sample. Rows that were not set have nothing live.
  void end();

  const std::vector<double>& times() const { return times_; }
  const std::vector<double>& survivor_times() const { return survivor_times_; }
  const BirthScale& scale() const { return scale_; }
  const std::vector<RowHistory>& rows() const { return rows_; }
  std::size_t samples() const { return samples_; }

 private:
  void widen_scale();
  void halve_times();
  void halve_survivors();

  BirthScale scale_;
  double now_ = 0;
  std::size_t samples_ = 0;
  std::size_t every_ = 1;  // samples of one time
  std::size_t survivors_every_ = 1;
  std::vector<double> times_;  // the last sample of each
  std::vector<double> survivor_times_;
  std::vector<RowHistory> rows_;
  std::vector<RowSample> next_;
};

}  // namespace culprit::report
