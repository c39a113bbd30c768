#include "report/doctor/known_issues.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace culprit::report {
namespace {

enum class Modules { kAny, kOpen };

struct Row {
  const char* versions;
  Modules modules;
  const char* problem;
  const char* remedy;
  const char* source;
};

constexpr Row kRows[] = {
#define ISSUE(versions, modules, problem, remedy, source) {versions, Modules::modules, problem, remedy, source},
#include "report/doctor/known_issues.def"
};

// {535, 104, 5} of "535.104.05".
std::vector<unsigned long> parts_of(const std::string& version) {
  std::vector<unsigned long> parts;
  std::istringstream text(version);
  for (std::string part; std::getline(text, part, '.');) parts.push_back(std::strtoul(part.c_str(), nullptr, 10));
  return parts;
}

}  // namespace

bool has_version(const std::string& versions, const std::string& version) {
  const std::vector<unsigned long> wanted = parts_of(version);
  std::istringstream words(versions);
  for (std::string word; words >> word;) {
    const std::size_t dots = word.find("..");
    if (dots == std::string::npos) {
      if (parts_of(word) == wanted) return true;
    } else if (wanted >= parts_of(word.substr(0, dots)) && wanted < parts_of(word.substr(dots + 2))) {
      return true;
    }
  }
  return false;
}

std::vector<KnownIssue> known_issues_of(const DriverModule& driver) {
  std::vector<KnownIssue> issues;
  if (driver.version.empty()) return issues;
  for (const Row& row : kRows) {
    if (row.modules == Modules::kOpen && !driver.open.value_or(true)) continue;
    if (has_version(row.versions, driver.version)) issues.push_back({row.problem, row.remedy, row.source});
  }
  return issues;
}

std::size_t known_issues_in_table() { return std::size(kRows); }

}  // namespace culprit::report
