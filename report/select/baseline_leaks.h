// The leaks of a baseline (baseline.h).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace culprit::report {

// All groups with one id, of all processes.
struct BaselineLeak {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string kind;
  std::string cause;  // several: "held, never-freed"
  std::string api;
  std::string where;
  std::string comment;
  bool old_id = false;  // of an older rule
  // Pairs of `where` and `api` by which an entry with an old id may know this leak. Empty in a file's entries.
  std::set<std::pair<std::string, std::string>> known_by;

  // Adds a group, or an entry of a report, with this id.
  void add(std::uint64_t more_bytes, std::uint64_t more_count, const std::string& its_cause);
};

using BaselineLeaks = std::map<std::string, BaselineLeak>;  // by id

}  // namespace culprit::report
