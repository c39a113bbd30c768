// The view from inside a running Python process, taken in a frozen copy of it (interpose/inside_python/frozen_copy.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "report/attach/traced_process.h"

namespace culprit::report {

struct FrozenOrder {
  std::string library;  // the path of the libculprit.so of this installation, which is in the process already
  // For the interpreter's main thread to run Python code, and then for the copy.
  std::chrono::milliseconds limit{10000};
  std::chrono::microseconds longest_stop{50000};  // a copy that would stop the process for longer is not made
};

struct FrozenView {
  std::string text;           // JSON of the schema culprit.python/1; empty: neither PyTorch nor CuPy is in use
  std::uint64_t held_ns = 0;  // for so long the interpreter ran no other code
  std::uint64_t took_ns = 0;  // until the view was there
};

// Throws AttachError with the reason. SIGINT, SIGTERM and SIGHUP end it early, as inject() does. Call it from a process
// with one thread.
FrozenView take_frozen_view(const TracedProcess& process, const FrozenOrder& order);

}  // namespace culprit::report
