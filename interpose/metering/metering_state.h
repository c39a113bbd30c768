// The process with the parts of this room.
#pragma once

#include "interpose/device_code/loaded_code.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/meter.h"

namespace culprit {

struct MeteringState : LiveState {
  Meter meter;
  LoadedCode code;
};
inline Meter& meter_of(Process& process) { return static_cast<MeteringState&>(process).meter; }
inline LoadedCode& code_of(Process& process) { return static_cast<MeteringState&>(process).code; }

}  // namespace culprit
