// The libraries of a process, as its loader lists them. Small pieces of memory tell what was loaded since the last
// look, while a stopped thread waits; the same question to /proc/PID/maps takes milliseconds in a large program.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/attach/traced_process.h"

namespace culprit::report {

class LoadedList {
 public:
  // Reads the list to its end.
  LoadedList(const TracedProcess& process, const std::vector<MappedRange>& mappings);

  // Whether a library whose file name begins with `name` was added since. Empty: that cannot be told.
  std::optional<bool> has_added(const std::string& name) const;

 private:
  const TracedProcess& process_;
  std::uint64_t last_at_ = 0;  // 0: there is no list
  link_map last_ = {};
};

}  // namespace culprit::report
