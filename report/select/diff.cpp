#include "report/select/diff.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "report/keepers/keeper_growth.h"
#include "report/select/renewed_baseline.h"

namespace culprit::report {
namespace {

std::uint64_t bytes_of(const ListedLeak* listed) { return listed == nullptr ? 0 : listed->leak.bytes; }

Change change_of(const ListedLeak* before, const ListedLeak* now, const Growth& allowed) {
  if (before == nullptr) return Change::kNew;
  if (now == nullptr) return Change::kGone;
  if (has_grown(before->leak, now->leak, allowed)) return Change::kGrown;
  const auto amount = [](const BaselineLeak& leak) { return std::tie(leak.bytes, leak.count); };
  return amount(now->leak) < amount(before->leak) ? Change::kShrunk : Change::kSame;
}

BaselineLeaks leaks_of(const LeakList& list) {
  BaselineLeaks leaks;
  for (const auto& [id, listed] : list.leaks) leaks[id] = listed.leak;
  return leaks;
}

// Gives the leaks with ids of an older rule those of the other list.
void renew(const LeakList& by, LeakList* list) {
  std::map<std::string, std::vector<std::string>> sources;
  std::map<std::string, ListedLeak> leaks;
  for (auto& [id, leak] : renewed(leaks_of(*list), leaks_of(by), &sources)) {
    const auto source = sources.find(id);
    const auto old = list->leaks.find(source == sources.end() ? id : source->second.front());
    leaks[id] = {std::move(leak), old == list->leaks.end() ? std::vector<const Frame*>() : old->second.frames};
  }
  list->leaks = std::move(leaks);
}

void compare_findings(Diff* diff) {
  if (!diff->before.findings || !diff->now.findings) return;
  const auto key_of = [](const ListedFinding& finding) { return std::make_pair(finding.name, finding.where); };
  std::multiset<std::pair<std::string, std::string>> before;
  for (const ListedFinding& finding : *diff->before.findings) before.insert(key_of(finding));
  for (const ListedFinding& finding : *diff->now.findings) {
    const auto known = before.find(key_of(finding));
    diff->findings.push_back({known == before.end() ? Change::kNew : Change::kSame, finding});
    if (known != before.end()) before.erase(known);
  }
  for (const ListedFinding& finding : *diff->before.findings) {
    const auto gone = before.find(key_of(finding));
    if (gone == before.end()) continue;
    diff->findings.push_back({Change::kGone, finding});
    before.erase(gone);
  }
}

}  // namespace

std::uint64_t DiffEntry::difference() const {
  return std::max(bytes_of(before), bytes_of(now)) - std::min(bytes_of(before), bytes_of(now));
}

Diff diff_of(LeakList before, LeakList now, const Growth& allowed) {
  Diff diff;
  diff.before = std::move(before);
  diff.now = std::move(now);
  renew(diff.now, &diff.before);
  renew(diff.before, &diff.now);
  auto add = [&](const std::string& id, const ListedLeak* old_leak, const ListedLeak* new_leak) {
    const Change change = change_of(old_leak, new_leak, allowed);
    diff.entries[static_cast<std::size_t>(change)].push_back({id, change, old_leak, new_leak});
  };
  for (const auto& [id, listed] : diff.now.leaks) {
    const auto known = diff.before.leaks.find(id);
    add(id, known == diff.before.leaks.end() ? nullptr : &known->second, &listed);
  }
  for (const auto& [id, listed] : diff.before.leaks) {
    if (diff.now.leaks.count(id) == 0) add(id, &listed, nullptr);
  }
  for (std::vector<DiffEntry>& entries : diff.entries) {
    std::stable_sort(entries.begin(), entries.end(), [](const DiffEntry& left, const DiffEntry& right) {
      return left.difference() > right.difference();
    });
  }
  compare_findings(&diff);
  if (diff.before.keepers && diff.now.keepers) {
    for (GrownKeeper& grown : grown_keepers(*diff.before.keepers, *diff.now.keepers)) {
      if (grown.growth() < 0 || has_grown(grown.before, grown.now, allowed)) diff.keepers.push_back(std::move(grown));
    }
  }
  return diff;
}

const char* change_name(Change change) {
  switch (change) {
    case Change::kNew:
      return "new";
    case Change::kGrown:
      return "grown";
    case Change::kShrunk:
      return "shrunk";
    case Change::kGone:
      return "gone";
    case Change::kSame:
      break;
  }
  return "unchanged";
}

}  // namespace culprit::report
