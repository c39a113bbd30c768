// The name of this machine, as dumps have it.
#pragma once

#include <string>

namespace culprit::report {

// Empty when the system has none. Thread-safe.
std::string host_name();

}  // namespace culprit::report
