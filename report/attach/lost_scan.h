// Memory of a running process to which no pointer is left, searched in a frozen copy of it
// (interpose/causes/lost_scan.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"
#include "report/attach/traced_process.h"

namespace culprit::report {

struct ScanOrder {
  std::string library;                            // the path of the libculprit.so of this installation
  std::chrono::milliseconds limit{10000};         // for each step
  std::chrono::microseconds longest_stop{50000};  // a copy that would stop the process for longer is not made
};

struct LostScanResult {
  format::LostSearch reason = format::LostSearch::kNotRun;  // kDone: the search was complete
  std::vector<format::HolderRecord> lost;                   // by the records of the dump
  std::vector<format::LastHolderRecord> last;               // their places are addresses of the process
  std::uint64_t live_count = 0;                             // that were looked for
  std::uint64_t live_bytes = 0;
  std::uint64_t threads = 0;  // that were stopped together
  std::uint64_t stopped_ns = 0;
  std::uint64_t search_ns = 0;
  std::uint64_t search_bytes = 0;
};

// Throws AttachError with the reason. SIGINT, SIGTERM and SIGHUP end it early, as inject() does. Call it from a process
// with one thread.
LostScanResult scan_for_lost(const TracedProcess& process, const ScanOrder& order);

}  // namespace culprit::report
