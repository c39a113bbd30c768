// The state of a frozen copy of a Python process, in which the objects that keep GPU memory are looked at while the
// process itself runs on: the variable culprit_frozen of libculprit.so. `culprit tensors PID` reads it from outside, in
// the process and in its copy.
#pragma once

#include <cstdint>

namespace culprit::format {

enum class FrozenPhase : std::uint32_t {
  kNone = 0,
  kAsked = 1,     // the main thread has not run Python code since
  kServed = 2,    // the main thread is at work
  kCopied = 3,    // `copy` is the process number of the copy
  kNoCaches = 4,  // neither PyTorch nor CuPy is in use
  kFailed = 5,    // `error` is an errno; 0: the reason is not known
  kTooLarge = 6,  // a copy of `private_bytes` would stop the process for too long
  kNoPython = 7,  // no interpreter that can be asked
  // In the copy:
  kWalking = 8,
  kReady = 9,   // the view is at `text`
  kBroken = 10  // the heap could not be read
};

struct FrozenCopy {
  FrozenPhase phase;  // stored last
  std::int32_t error;
  std::int32_t copy;            // as the process sees it; 0: there is none, or it was waited for
  std::uint64_t most_us;        // written by the command before it asks: the copy may stop the process for so long
  std::uint64_t private_bytes;  // of the process
  std::uint64_t held_ns;        // for so long the interpreter could run no other code
  std::uint64_t text, bytes;    // in the copy: JSON of the schema culprit.python/1
};

}  // namespace culprit::format
