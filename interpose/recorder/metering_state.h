// The process with the parts of this room.
#pragma once

#include "interpose/recorder/live_bytes.h"
#include "interpose/recorder/meter.h"

namespace culprit {

struct MeteringState : LiveState {
  Meter meter;
};
inline Meter& meter_of(Process& process) { return static_cast<MeteringState&>(process).meter; }

}  // namespace culprit
