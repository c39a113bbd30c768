// How a command is started under libculprit.so: the environment that `culprit run` and `culprit sweep` give it.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit {

using Environment = std::vector<std::pair<std::string, std::string>>;

// Where dumps go when nobody says so, in the folder that is meant.
constexpr char kDefaultPattern[] = "culprit.%n.%p.dump";

// libculprit.so beside this executable: in lib of the installed or built tree, or where CULPRIT_LIBRARY says. Throws
// std::runtime_error when it is not there.
std::string find_library();

// What has to be set so that a command runs under libculprit.so, writes its dumps after `pattern` and says nothing at
// its end. Throws std::runtime_error when find_library() does, or LD_PRELOAD cannot hold
// its path.
Environment preload_environment(const std::string& pattern);

}  // namespace culprit
