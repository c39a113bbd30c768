// Names of signals, as in CULPRIT_SIGNAL.
#pragma once

namespace culprit {

// The name without SIG, nullptr when it has none.
const char* signal_name(int number);

// The number of a signal by its name ("USR2", "SIGUSR2", "RTMIN+3") or number, 0 when it cannot be used: unknown,
// uncatchable, or raised by faults.
int parse_signal(const char* text);

}  // namespace culprit
