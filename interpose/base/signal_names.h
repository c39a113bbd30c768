// Signals by name, as CULPRIT_SIGNAL has them.
#pragma once

namespace culprit {

// The name without SIG, nullptr when it has none.
const char* signal_name(int number);

// The number of a signal by its name ("USR2", "SIGUSR2", "RTMIN+3") or number, 0 when it can not be used: unknown, not
// to be caught, or one that a fault raises.
int parse_signal(const char* text);

}  // namespace culprit
