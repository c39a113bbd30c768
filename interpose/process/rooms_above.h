// The rooms above the ground, as the ground and the rooms between see them: how large the state of the process is with
// the parts of all rooms, and what is called there at moments that only a lower room sees. Every call is rare.
//
// One list, which the preparation fills (entry/lifecycle.cpp). In a unit test all are zeros: nothing is recorded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

struct Process;

struct RoomsAbove {
  std::size_t state_bytes;  // of the last struct in the line that begins with Process (process.h)

  // Whether a process that does not record yet should start with this call.
  bool (*wants_recording)();
  // Makes the dump, see start_recording().
  int (*start)(Process& process, bool called);
  // The calling thread ends. In the last round of its destructors, see thread_end.h.
  void (*end_thread)();
  // Likewise, for the causes: before the private data of a recorded thread is freed.
  void (*note_thread_end)(Process& process);
  // `live` bytes of a device are in use, which is much more than in the last breakdown; `at_exit`: or more at all.
  void (*breakdown_peak)(Process& process, std::uint8_t device, std::uint64_t live, bool at_exit);
  // Serves ViewRequest bits, see request_view().
  void (*serve_view)(Process& process, std::uint32_t requests);
  void (*begin_audit)();
  // Runs before any other handler of the program, see keep_first_handler(); then the other two.
  void (*before_exit)();
  // The handlers for on_exit() and at_quick_exit().
  void (*at_exit)(int status, void*);
  void (*at_quick_exit)();
};

extern CULPRIT_OWN RoomsAbove rooms_above;

}  // namespace culprit
