// PyTorch's own counts of the memory in its cache, read from the memory of a running process. Nothing in the process
// runs or stops for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/attach/traced_process.h"
#include "report/model/cache_bytes.h"

namespace culprit::report {

// The counts (c10's DeviceStats) are found by what they are, and not by a table of versions: the exported pointer to
// the allocator leads to a list of one object for each device, and the counts in these add up. Their form is the same
// in PyTorch 2.0 to 2.15 (the headers of the wheels on PyPI), but for a member of 2.13 in their middle.
// Not thread-safe.
class TorchAllocator {
 public:
  explicit TorchAllocator(pid_t pid) : pid_(pid) {}

  pid_t pid() const { return pid_; }

  // The devices on which it had segments. Empty: no PyTorch with CUDA, no segment yet, another allocator (the driver's
  // pool, or one that the program brought), or a form that is not known.
  std::vector<CacheBytes> read();

  // Why the memory of a process with PyTorch cannot be read: a sentence; empty: it can, or there is no PyTorch.
  const std::string& problem() const { return problem_; }

 private:
  // Where the counts lie in the object of a device.
  struct Form {
    std::uint64_t begin = 0;  // bytes before them
    std::uint64_t gap = 0;    // bytes of the member in their middle
  };

  void find(const TracedProcess& process);
  bool is_list(const TracedProcess& process, std::uint64_t begin, std::uint64_t end);

  const pid_t pid_;
  std::optional<std::chrono::steady_clock::time_point> looked_;
  std::vector<std::uint64_t> objects_;  // addresses, by device; empty: not found
  Form form_;
  std::string problem_;
};

}  // namespace culprit::report
