// How a command is started under libculprit.so: the environment for `culprit run` and `culprit sweep`.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace culprit::report {

using Environment = std::vector<std::pair<std::string, std::string>>;

// libculprit.so next to this executable, in lib of the installed or built tree, or at the path in CULPRIT_LIBRARY.
// Throws std::runtime_error when it is missing.
std::string find_library();

// The same for LD_PRELOAD. Throws, too, when that cannot hold the path.
std::string preloadable_library();

// Throws FileError or std::runtime_error when the library of find_library() is another one, or only a part of one: the
// loader would go on without it, and a gate would be green.
void check_library();

// The variables that make a command run under libculprit.so, write its dumps after `pattern` and print nothing at its
// end. LD_PRELOAD cannot hold a path with spaces or colons: `folder`, which must exist as long as the command runs,
// gets a link to such a library. Throws std::runtime_error when there is no library, or no link can be made.
Environment preload_environment(const std::string& pattern, const std::string& folder);

}  // namespace culprit::report
