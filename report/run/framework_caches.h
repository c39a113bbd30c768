// The environment variables that switch off the caching allocators of frameworks, so that each tensor is an allocation
// of its own.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit::report {

// Variables to add to the environment of the command; variables that the user has set are not changed.
std::vector<std::pair<std::string, std::string>> framework_cache_switches();

// The effect of the option, for --help.
std::string framework_cache_help();

}  // namespace culprit::report
