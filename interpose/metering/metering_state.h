// The process with the parts of this room.
#pragma once

#include "interpose/metering/live_bytes.h"
#include "interpose/metering/meter.h"

namespace culprit {

struct MeteringState : LiveState {
  Meter meter;
};
inline Meter& meter_of(Process& process) { return static_cast<MeteringState&>(process).meter; }

}  // namespace culprit
