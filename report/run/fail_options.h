// The options of `culprit run` that make calls fail, and their form in the library's environment.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct FailOptions {
  std::vector<std::string> allocations;  // --fail-alloc
  std::vector<std::string> calls;        // --fail-call, as given
};

// The value of CULPRIT_FAIL for these options; "" for none. Throws std::runtime_error when there are more rules than
// the library accepts.
std::string fail_environment(const FailOptions& options);

// Describes the problem with the value of a --fail-alloc; "" for a correct value.
std::string check_fail_allocation(const std::string& text);

// Describes the problem with the value of a --fail-call; "" for a correct value.
std::string check_fail_call(const std::string& text);

}  // namespace culprit::report
