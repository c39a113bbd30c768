// Requests for the view from inside a Python interpreter. The recorder sees when a view is wanted; inside_python/
// serves the requests.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/process/process.h"

namespace culprit {

enum ViewRequest : std::uint32_t {
  kViewLoad = 1,      // bring the view's code into the interpreter, and names of threads out of it
  kViewRanOut = 2,    // an allocation failed with out of memory: take a view of this moment
  kViewSnapshot = 4,  // likewise beside a snapshot
  kViewAttach = 8,    // with kViewLoad: the caller is an injector, at a point that it found safe
  kViewFrozen = 16,   // take a view in a frozen copy of the process, for culprit tensors
};

// All zeros = no view was asked for.
struct ViewPart {
  std::atomic<std::uint32_t> wanted;      // ViewRequest, not served yet
  std::atomic<std::uint64_t> queued_ns;   // when a call was queued in the interpreter; 0 = none is queued
  std::atomic<std::uint64_t> put_off_ns;  // when a thread first left the queueing to another one; 0 = none did
  std::atomic<std::uint32_t> waited_us;   // by threads, for the main thread to wait for them
  std::atomic<bool> complete;             // nothing is left to do at a new Python stack
  std::atomic<std::uint32_t> queued;      // calls, so far
  std::atomic<std::uint32_t> failures;    // to load the code, in a row
};

// The process with the view's part.
struct ViewState : Process {
  ViewPart view;
};
inline ViewPart& view_of(Process& process) { return static_cast<ViewState&>(process).view; }

// Passes ViewRequest bits on. Does nothing with CULPRIT_PYTHON=0. On the tracker's own stack only. Thread-safe.
void request_view(Process& process, std::uint32_t requests);

}  // namespace culprit
