#include "report/select/diff.h"

#include <algorithm>

namespace culprit::report {
namespace {

std::uint64_t bytes_of(const ListedLeak* listed) { return listed == nullptr ? 0 : listed->leak.bytes; }

Change change_of(const ListedLeak* before, const ListedLeak* now, const Growth& allowed) {
  if (before == nullptr) return Change::kNew;
  if (now == nullptr) return Change::kGone;
  const BaselineLeak& old_leak = before->leak;
  const BaselineLeak& new_leak = now->leak;
  if (new_leak.bytes < old_leak.bytes) return Change::kShrunk;
  if (new_leak.bytes > old_leak.bytes)
    return has_grown(old_leak.bytes, new_leak.bytes, allowed) ? Change::kGrown : Change::kSame;
  if (new_leak.count == old_leak.count) return Change::kSame;
  return new_leak.count > old_leak.count ? Change::kGrown : Change::kShrunk;
}

}  // namespace

std::uint64_t DiffEntry::difference() const {
  return std::max(bytes_of(before), bytes_of(now)) - std::min(bytes_of(before), bytes_of(now));
}

Diff diff_of(LeakList before, LeakList now, const Growth& allowed) {
  Diff diff;
  diff.before = std::move(before);
  diff.now = std::move(now);
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
