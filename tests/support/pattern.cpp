#include "tests/support/pattern.h"

#include <regex>

namespace culprit::test {
namespace {

std::regex regex_of(const std::string& pattern) {
  return std::regex(pattern, std::regex::ECMAScript | std::regex::multiline);
}

}  // namespace

bool matches(const std::string& text, const std::string& pattern) { return std::regex_match(text, regex_of(pattern)); }

bool has_match(const std::string& text, const std::string& pattern) {
  return std::regex_search(text, regex_of(pattern));
}

std::vector<std::string> first_groups(const std::string& text, const std::string& pattern) {
  std::vector<std::string> groups;
  const std::regex regex = regex_of(pattern);
  for (std::sregex_iterator at(text.begin(), text.end(), regex), end; at != end; ++at) groups.push_back((*at)[1]);
  return groups;
}

}  // namespace culprit::test
