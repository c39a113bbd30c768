#include "report/select/renewed_baseline.h"

#include <algorithm>
#include <tuple>

namespace culprit::report {
namespace {

// Where a leak is: place, API and kind.
using Place = std::tuple<std::string, std::string, std::string>;

// The entries with old ids at one place, and the leaks that are there now.
struct Entries {
  BaselineLeak one;  // the last of them
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::string comment;
  std::vector<std::string> old_ids;
  std::vector<std::string> new_ids;
};

// A file may have any number of comments for one place.
constexpr std::size_t kLongestComment = 4096;

void add_comment(const std::string& comment, std::string* to) {
  if (comment.empty() || (!to->empty() && to->size() + comment.size() > kLongestComment)) return;
  if (to->find(comment) == std::string::npos) *to += (to->empty() ? "" : "; ") + comment;
}

// `total`, divided in proportion to `parts`. The sum is exact: rounding hides no growth and invents none.
std::vector<std::uint64_t> divided(std::uint64_t total, const std::vector<std::uint64_t>& parts) {
  using Wide = unsigned __int128;
  Wide sum = 0;
  for (const std::uint64_t part : parts) sum += part;
  std::vector<std::uint64_t> shares;
  std::uint64_t left = total;
  for (const std::uint64_t part : parts) {
    shares.push_back(sum == 0 ? 0 : static_cast<std::uint64_t>(static_cast<Wide>(total) * part / sum));
    left -= shares.back();
  }
  for (std::size_t i = 0; left != 0; i = (i + 1) % shares.size()) {
    const std::uint64_t more = i + 1 == shares.size() ? left : 1;
    shares[i] += more;
    left -= more;
  }
  return shares;
}

void divide(const Entries& entries, const BaselineLeaks& now, BaselineLeaks* result) {
  std::vector<std::uint64_t> bytes;
  std::vector<std::uint64_t> counts;
  for (const std::string& id : entries.new_ids) {
    bytes.push_back(now.at(id).bytes);
    counts.push_back(now.at(id).count);
  }
  bytes = divided(entries.bytes, bytes);
  counts = divided(entries.count, counts);
  for (std::size_t i = 0; i < entries.new_ids.size(); ++i) {
    BaselineLeak& leak = (*result)[entries.new_ids[i]];
    leak = entries.one;
    leak.comment = entries.comment;
    leak.bytes = bytes[i];
    leak.count = counts[i];
    leak.old_id = false;
  }
}

}  // namespace

BaselineLeaks renewed(BaselineLeaks before, const BaselineLeaks& now,
                      std::map<std::string, std::vector<std::string>>* sources) {
  const bool any_old = std::any_of(before.begin(), before.end(), [](const auto& entry) { return entry.second.old_id; });
  if (!any_old) return before;
  std::map<Place, std::vector<std::string>> leaks_at;
  for (const auto& [id, leak] : now) {
    if (leak.old_id) continue;
    for (const auto& [where, api] : leak.known_by) leaks_at[{where, api, leak.kind}].push_back(id);
  }
  // One leak may be known by several places, and is one nevertheless.
  std::map<std::vector<std::string>, Entries> places;
  std::map<Place, Entries*> entries_at;
  for (const auto& [place, ids] : leaks_at) entries_at[place] = &places[ids];
  BaselineLeaks result;
  for (auto& [id, leak] : before) {
    const auto at =
        leak.old_id && now.count(id) == 0 ? entries_at.find({leak.where, leak.api, leak.kind}) : entries_at.end();
    if (at == entries_at.end()) {
      result[id] = std::move(leak);
      continue;
    }
    Entries& entries = *at->second;
    add_comment(leak.comment, &entries.comment);
    entries.bytes += leak.bytes;
    entries.count += leak.count;
    entries.old_ids.push_back(id);
    entries.one = std::move(leak);
  }
  for (auto& [ids, entries] : places) {
    if (entries.old_ids.empty()) continue;
    for (const std::string& id : ids) {
      const auto known = result.find(id);
      if (known == result.end()) {
        entries.new_ids.push_back(id);
        continue;
      }
      // An entry of the new rule, which was accepted after the old ones, has its part of them already.
      entries.bytes -= std::min(entries.bytes, known->second.bytes);
      entries.count -= std::min(entries.count, known->second.count);
      add_comment(entries.comment, &known->second.comment);
    }
    if (entries.new_ids.empty()) continue;
    divide(entries, now, &result);
    if (sources == nullptr) continue;
    for (const std::string& id : entries.new_ids) (*sources)[id] = entries.old_ids;
  }
  return result;
}

}  // namespace culprit::report
