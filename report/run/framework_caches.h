// The switches by which frameworks let go of their caching allocators, so that each tensor is an allocation by itself.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit {

// Variables to add to the environment of the command; those that the user has set stay as they are.
std::vector<std::pair<std::string, std::string>> framework_cache_switches();

// What the option does, for --help.
std::string framework_cache_help();

}  // namespace culprit
