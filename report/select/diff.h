// How the leaks of two runs differ.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "report/base/byte_size.h"
#include "report/select/leak_list.h"

namespace culprit::report {

// In display order.
enum class Change { kNew, kGrown, kShrunk, kGone, kSame };
constexpr std::size_t kChanges = 5;
// The changes that formats list one by one.
constexpr Change kShownChanges[] = {Change::kNew, Change::kGrown, Change::kShrunk, Change::kGone};

struct DiffEntry {
  std::string id;
  Change change = Change::kSame;
  const ListedLeak* before = nullptr;  // nullptr: new
  const ListedLeak* now = nullptr;     // nullptr: gone

  // The leak as it is now, or as it was when it is gone.
  const ListedLeak& shown() const { return now != nullptr ? *now : *before; }
  // Bytes between before and now.
  std::uint64_t difference() const;
};

struct FindingChange {
  Change change = Change::kSame;  // kNew, kGone or kSame
  ListedFinding finding;          // as it is now, or as it was
};

struct Diff {
  LeakList before;
  LeakList now;
  std::array<std::vector<DiffEntry>, kChanges> entries;  // by Change; the largest difference first

  std::vector<FindingChange> findings;  // empty also when one of the runs does not tell of any

  std::vector<GrownKeeper> keepers;  // of live memory, those that differ; empty also when one run does not tell of any

  const std::vector<DiffEntry>& with(Change change) const { return entries[static_cast<std::size_t>(change)]; }
};

// Compares by id, bytes and count. Growth within `allowed` counts as no change. Where only one of the lists has ids of
// an older rule, these leaks are found by their place: renewed(). Findings are compared by their row and their place.
Diff diff_of(LeakList before, LeakList now, const Growth& allowed);

// "new", "grown", "shrunk", "gone", "unchanged": the names in the JSON diff.
const char* change_name(Change change);

}  // namespace culprit::report
