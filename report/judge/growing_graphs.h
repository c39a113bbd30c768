// Lines that make executable graphs again and again and keep them, for example one for each request: the driver takes
// memory for each of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct CallCharge;
struct Report;
struct ResolvedStack;

// The executables of one line, of one process on one device.
struct ExecutableLine {
  std::uint32_t process = 0;
  unsigned device = 0;
  const ResolvedStack* stack = nullptr;  // that with the most bytes
  std::string api;
  std::int64_t bytes = 0;
  std::uint64_t grown = 0;  // instantiations that made the driver take memory
  std::uint64_t made = 0;
  std::uint64_t live = 0;
  std::uint64_t most_live = 0;  // of several stacks: at least so many
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;  // the last one that made the driver take memory
  bool growing = false;
};

// All lines with executables in contexts that live, most bytes first.
std::vector<ExecutableLine> executable_lines(const Report& report);

// Decides for a process's report which lines keep growing: CallCharge::growing. A line does that if
//   - 16 of its executables or more lived at once, which were at least half of all that it made,
//   - they made the driver take 32 MiB or more, in 8 calls or more, and
//   - the last of these calls came in the second half of the time from the first one to the end of the program.
// So a program that makes its graphs at the start and then launches them is not named, however many there are, and
// neither is one with a handful.
void mark_growing_graphs(Report* report);

}  // namespace culprit::report
