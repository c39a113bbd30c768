// NVML's account of the processes that have memory on a device, as `culprit run` got it after an allocation had failed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace culprit::report {

struct ChargedProcess {
  std::uint32_t pid = 0;
  std::string name;  // empty: not known
  bool bytes_known = false;
  std::uint64_t bytes = 0;
};

struct GpuCharges {
  std::uint64_t asked_ns = 0;    // when NVML was asked, in the time of the dump
  bool after_end = false;        // the process whose allocation failed had ended by then
  std::string problem;           // why nothing is known; empty: the rest is
  bool foreign_numbers = false;  // of processes: they are of another PID namespace, so none is known to be this process
  bool own_known = false;
  std::uint64_t own_bytes = 0;         // charged to the process whose allocation failed
  std::vector<ChargedProcess> others;  // most bytes first
  std::uint64_t left_out = 0;          // others that are not in the list
};

}  // namespace culprit::report
