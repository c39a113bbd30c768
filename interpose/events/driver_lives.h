// Keeps the records of several drivers apart (driver/loaded_drivers.h).
//
// Memory that is live when a driver is unloaded was never freed by the program: it stays in the dump as not freed. Its
// handles leave all tables, because the next driver may give the same ones out.
#pragma once

#include "interpose/base/placement.h"
#include "interpose/driver/loaded_drivers.h"

namespace culprit {

CULPRIT_COLD void keep_lives_apart_here();

// Call after a look-up, which may have met a driver that was not known before.
inline void keep_lives_apart() {
  if (CULPRIT_UNLIKELY(has_several_lives() || has_ended_lives())) keep_lives_apart_here();
}

// Call after an unload. Thread-safe; keeps errno.
void look_for_closed_drivers();

}  // namespace culprit
