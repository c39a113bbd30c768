// The Xid errors of NVIDIA's driver in the kernel's log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace culprit::report {

// Equal errors (GPU, number, process) are one.
struct Xid {
  std::string pci;  // "0000:06:00"
  unsigned number = 0;
  std::string meaning;               // empty: not in xid.def
  std::string advice;                // may be empty
  std::optional<std::uint32_t> pid;  // of the process that the driver names
  std::string process;               // its name; may be empty
  std::string detail;                // the rest of the last line
  std::uint64_t count = 0;
  std::optional<double> last_seconds;  // since the machine's start
};

struct KernelLog {
  std::vector<Xid> xids;  // the last one first
  std::string source;     // where they were read: "/dev/kmsg", "journalctl"
  std::string problem;    // why neither could be read; empty: one was
};

// Reads the kernel's buffer at `device` (/dev/kmsg); where that is refused, the journal of this boot, by starting
// journalctl. Blocks for some seconds at most. Never throws. Call it from a process with one thread.
KernelLog read_kernel_log(const std::string& device);

// The age of the last one; empty: not known.
std::optional<double> age_of(const Xid& xid, double uptime_seconds);

// A line of the log; empty: it has no Xid error. `text` begins anywhere before "NVRM: Xid".
std::optional<Xid> parse_xid(const std::string& text);

}  // namespace culprit::report
