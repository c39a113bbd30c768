#include "report/run/fail_options.h"

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "report/base/words.h"
#include "report/cuda/cuda_names.h"

namespace culprit::report {
namespace {

// The limit of interpose/driver/fail_rules.h.
constexpr std::size_t kMostRules = 16;
constexpr std::size_t kMostText = 1023;

constexpr std::uint64_t kMostCalls = 0xffffffff;
constexpr char kNumberIsNeeded[] = ": the number of the call is needed, from 1 to 4294967295";

bool parse_number(std::string_view text, std::uint64_t least, std::uint64_t most, std::uint64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && *value >= least && *value <= most;
}

// The CUresult with this number or name; 0 when it is not a failure.
int failure_code(std::string_view text) {
  std::uint64_t number = 0;
  if (parse_number(text, 1, 0x7fffffff, &number)) return static_cast<int>(number);
  const int code = cuda_result_code(text);
  return code > 0 ? code : 0;
}

struct CallParts {
  std::string_view name;
  std::string_view nth;
  std::string_view code;
};

bool split(std::string_view text, CallParts* parts) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return false;
  *parts = {text.substr(0, first), text.substr(first + 1, second - first - 1), text.substr(second + 1)};
  return true;
}

}  // namespace

std::string check_fail_allocation(const std::string& text) {
  std::uint64_t nth = 0;
  return parse_number(text, 1, kMostCalls, &nth) ? "" : short_word(text) + kNumberIsNeeded;
}

std::string check_fail_call(const std::string& text) {
  CallParts parts;
  if (!split(text, &parts))
    return short_word(text) + ": NAME:N:CODE is needed, for example cuMemcpyHtoD:1:CUDA_ERROR_INVALID_VALUE";
  const std::string name(parts.name);
  std::uint64_t nth = 0;
  if (!is_hooked_function(name)) {
    if (is_runtime_api(name))
      return short_word(name) +
             " is a call of the CUDA runtime: name the driver's function that it calls (cuMemAlloc, cuMemcpyHtoD, ...)";
    return short_word(name) + ": no such driver function is watched; interpose/driver/hooks.def lists them";
  }
  if (!parse_number(parts.nth, 1, kMostCalls, &nth)) return short_word(parts.nth) + kNumberIsNeeded;
  if (failure_code(parts.code) == 0)
    return short_word(parts.code) +
           ": the code of a failure is needed, a number or a name (2, CUDA_ERROR_OUT_OF_MEMORY)";
  return {};
}

std::string fail_environment(const FailOptions& options) {
  std::string text;
  const auto add = [&](const std::string& rule) { text += (text.empty() ? "" : ",") + rule; };
  for (const std::string& nth : options.allocations) add("alloc:" + nth);
  for (const std::string& call : options.calls) {
    CallParts parts;
    if (!split(call, &parts)) throw std::runtime_error(call + ": NAME:N:CODE is needed");
    add(std::string(parts.name) + ":" + std::string(parts.nth) + ":" + std::to_string(failure_code(parts.code)));
  }
  if (options.allocations.size() + options.calls.size() > kMostRules || text.size() > kMostText)
    throw std::runtime_error("too many calls to fail: " + std::to_string(kMostRules) + " at most");
  return text;
}

}  // namespace culprit::report
