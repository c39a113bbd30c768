// The process with the parts of this room.
#pragma once

#include "interpose/control/breakdowns.h"
#include "interpose/control/mark_sums.h"
#include "interpose/control/mark_table.h"
#include "interpose/metering/metering_state.h"

namespace culprit {

// All zeros = recording was never switched.
struct SwitchPart {
  std::atomic<std::uint64_t> switched_on_ns;
  std::atomic<std::uint32_t> spans;  // number of spans begun
  std::atomic<format::Ref> span;     // SpanRecord of the current span; 0 = none written
};

struct ControlState : MeteringState {
  MarkTable marks;
  MarkSums mark_sums;
  Breakdowns breakdowns;
  SwitchPart switching;
};
inline MarkTable& marks_of(Process& process) { return static_cast<ControlState&>(process).marks; }
inline MarkSums& mark_sums_of(Process& process) { return static_cast<ControlState&>(process).mark_sums; }
inline Breakdowns& breakdowns_of(Process& process) { return static_cast<ControlState&>(process).breakdowns; }
inline SwitchPart& switching_of(Process& process) { return static_cast<ControlState&>(process).switching; }

}  // namespace culprit
