// A running process that a command has to communicate with: whether it has libculprit.so loaded, and its settings.
#pragma once

#include <cstdint>
#include <string>

#include "interpose/format/dump_file.h"

namespace culprit::report {

inline constexpr char kProc[] = "/proc";

struct TargetProcess {
  std::uint32_t pid = 0;
  std::string problem;            // why communication is impossible; empty: it is possible
  bool without_library = false;   // the problem: neither it nor a process below it has libculprit.so
  bool has_library = false;       // libculprit.so is mapped
  std::string dump;               // the dump that it writes, as a path inside its own root; empty: none yet
  bool detached = false;          // libculprit.so was not there from its start, and stays without a dump
  bool waits_for_signal = false;  // was started with CULPRIT_START=signal
  std::string signal_name;        // CULPRIT_SIGNAL; "USR2" when it is not set, or cannot be used
  int signal_number = 0;
  bool catches_signal = false;
  bool ignores_signal = false;
  bool has_cuda = false;  // a CUDA library is mapped; only then does the process wait for the signal
};

// Examines process `pid`. If the library is not in it but in exactly one of its descendants, that descendant is the
// target: for a `culprit run` people know the pid of that command only. Never throws.
TargetProcess find_target(const std::string& proc, std::uint32_t pid);

// Whether libculprit.so is loaded in this very process.
bool has_library(const std::string& proc, std::uint32_t pid);

// The way to switch recording in a process whose signal does not reach the library: it reads CULPRIT_SIGNAL when the
// process starts.
inline std::string other_signal_advice() { return "run it again with the name of another signal in CULPRIT_SIGNAL"; }

// The dump's current header. False when the file cannot be read.
bool read_header(const std::string& proc, const TargetProcess& target, format::Header* header);

}  // namespace culprit::report
