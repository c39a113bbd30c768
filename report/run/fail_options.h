// The options of `culprit run` that make calls fail, and what they are in the library's environment.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}  // namespace CLI

namespace culprit {

struct FailOptions {
  std::vector<std::string> allocations;  // --fail-alloc
  std::vector<std::string> calls;        // --fail-call, as given
};

// Declares --fail-alloc and --fail-call. Wrong values are CLI::ValidationErrors that say what is wrong.
void add_fail_options(CLI::App* app, FailOptions* options);

// The value of CULPRIT_FAIL that these options stand for; "" for none. Throws std::runtime_error when there are more
// rules than the library takes.
std::string fail_environment(const FailOptions& options);

// What is wrong with the value of a --fail-call; "" when nothing is.
std::string check_fail_call(const std::string& text);

}  // namespace culprit
