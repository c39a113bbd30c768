#include "report/select/baseline_leaks.h"

#include <algorithm>

namespace culprit::report {

void BaselineLeak::add(std::uint64_t more_bytes, std::uint64_t more_count, const std::string& its_cause) {
  bytes += more_bytes;
  count += more_count;
  std::set<std::string> causes = {its_cause};
  for (std::size_t begin = 0; begin < cause.size();) {
    const std::size_t end = std::min(cause.find(", ", begin), cause.size());
    causes.insert(cause.substr(begin, end - begin));
    begin = end + 2;
  }
  cause.clear();
  for (const std::string& one : causes) cause += (cause.empty() ? "" : ", ") + one;
}

}  // namespace culprit::report
