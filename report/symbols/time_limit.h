// The processor time that one file may take. The other limits bound what libdw is asked and what it holds; this one
// bounds entries that a stranger made as slow to read as they can be.
#pragma once

#include <cstdint>

namespace culprit::report {

// Of the calling thread, from the constructor on. Not thread-safe.
class TimeLimit {
 public:
  explicit TimeLimit(std::uint64_t file_bytes);

  // Whether the time is over; once over it stays so. The clock costs a system call, so it is read once for so many
  // steps. `steps`: those of the work that follows.
  bool is_over(std::uint64_t steps = 1);
  static constexpr std::uint64_t kStepsBetween = 256;

 private:
  std::uint64_t end_ns_;
  std::uint64_t steps_ = 0;
  bool over_ = false;
};

}  // namespace culprit::report
