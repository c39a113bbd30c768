// A running process that a command was told to talk to: whether libculprit.so is in it, and how it was prepared.
#pragma once

#include <cstdint>
#include <string>

#include "interpose/format/dump_format.h"

namespace culprit {

struct TargetProcess {
  std::uint32_t pid = 0;
  std::string problem;            // why it cannot be talked to, and what to do; empty: it can
  bool has_library = false;       // libculprit.so is mapped
  std::string dump;               // what it writes, a path inside its own root; empty: nothing yet
  bool waits_for_signal = false;  // was started with CULPRIT_START=signal
  std::string signal_name;        // CULPRIT_SIGNAL; "USR2" when it is not set, or cannot be used
  int signal_number = 0;
  bool catches_signal = false;
  bool ignores_signal = false;
  bool has_cuda = false;  // a CUDA library is mapped: the process waits for the signal only if it is
};

// Looks at process `pid`. When the library is not in it but in exactly one of its descendants, that one is meant: of a
// `culprit run` people know the command's own pid. Never throws.
TargetProcess find_target(const std::string& proc, std::uint32_t pid);

// The dump's header as it is now. False when the file cannot be read.
bool read_header(const std::string& proc, const TargetProcess& target, format::Header* header);

}  // namespace culprit
