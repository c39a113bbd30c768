#include "report/model/marks.h"

#include <algorithm>
#include <utility>

#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/dump/allocation_groups.h"
#include "report/dump/dump_reader.h"

namespace culprit::report {

using namespace format;

namespace {

constexpr char kTestPrefix[] = "test: ";  // CULPRIT_TEST_PREFIX in culprit.h

std::string name_of(const Dump& dump, Ref ref) {
  MarkRecord record;
  return dump.mark(ref, &record) ? std::string(dump.string(record.name)) : std::string();
}

void sort_shares(std::vector<MarkShare>* shares) {
  std::stable_sort(shares->begin(), shares->end(), [](const MarkShare& left, const MarkShare& right) {
    return left.bytes != right.bytes ? left.bytes > right.bytes : left.count > right.count;
  });
}

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 19 && text.front() != '0' &&
         text.find_first_not_of("0123456789") == std::string::npos;
}

void add_time(const MarkTime& time, std::vector<MarkTime>* times) {
  const auto at = std::lower_bound(times->begin(), times->end(), time, [](const MarkTime& left, const MarkTime& right) {
    return left.number < right.number;
  });
  if (at == times->end() || at->number != time.number) times->insert(at, time);
}

// Python's `with culprit.mark(...)` sets a moment of the same name, too; only the mark is kept.
void drop_moments_of_marks(std::vector<MarkInfo>* marks) {
  std::map<std::string, std::uint64_t> opened;
  for (const MarkInfo& mark : *marks) {
    if (mark.kind == MarkKind::kMark) opened[mark.name] = mark.count;
  }
  marks->erase(std::remove_if(marks->begin(), marks->end(),
                              [&](const MarkInfo& mark) {
                                if (mark.kind != MarkKind::kMoment) return false;
                                const auto same = opened.find(mark.name);
                                return same != opened.end() && same->second == mark.count;
                              }),
               marks->end());
}

}  // namespace

std::vector<MarkInfo> read_marks(const Dump& dump) {
  std::vector<MarkInfo> marks;
  std::map<std::pair<MarkKind, Ref>, std::vector<MarkTime>> times;  // by kind and name
  for (const MarkTimeRecord& time : dump.mark_times()) {
    MarkRecord record;
    if (dump.mark(time.mark, &record)) times[{record.kind, record.name}].push_back({time.number, time.time_ns});
  }
  for (const MarkRecord& record : dump.marks()) {
    if (record.kind == MarkKind::kRegionName) continue;
    MarkInfo mark;
    mark.name = dump.string(record.name);
    mark.kind = record.kind;
    mark.first_ns = record.first_ns;
    mark.last_ns = record.last_ns;
    mark.count = record.count;
    const auto kept = times.find({record.kind, record.name});
    if (kept != times.end()) mark.times = std::move(kept->second);
    std::sort(mark.times.begin(), mark.times.end(),
              [](const MarkTime& left, const MarkTime& right) { return left.number < right.number; });
    add_time({1, mark.first_ns}, &mark.times);
    add_time({mark.count, mark.last_ns}, &mark.times);
    marks.push_back(std::move(mark));
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const MarkInfo& left, const MarkInfo& right) { return left.first_ns < right.first_ns; });
  drop_moments_of_marks(&marks);
  return marks;
}

MarkName split_mark_name(const std::string& text) {
  const std::size_t at = text.rfind('#');
  if (at == std::string::npos || at == 0 || !is_number(text.substr(at + 1))) return {text, 0};
  return {text.substr(0, at), std::stoull(text.substr(at + 1))};
}

MarkBound find_mark(const std::vector<MarkInfo>& marks, const std::string& asked) {
  MarkBound bound;
  bound.asked = bound.name = asked;
  for (const MarkInfo& mark : marks) {
    if (mark.name != asked || (bound.time_ns && *bound.time_ns >= mark.last_ns)) continue;
    bound.time_ns = mark.last_ns;
    bound.number = bound.count = mark.count;
  }
  const MarkName split = split_mark_name(asked);
  if (bound.time_ns || split.number == 0) return bound;
  for (const MarkInfo& mark : marks) {
    if (mark.name != split.name) continue;
    const auto time = std::find_if(mark.times.begin(), mark.times.end(),
                                   [&](const MarkTime& one) { return one.number == split.number; });
    if (time == mark.times.end()) continue;
    bound.time_ns = time->time_ns;
    bound.name = mark.name;
    bound.number = time->number;
    bound.count = mark.count;
    break;
  }
  return bound;
}

std::string bound_text(const MarkBound& bound) {
  std::string text = "\"" + printable(bound.name) + "\"";
  if (bound.count > 1) text += ", number " + std::to_string(bound.number) + " of " + std::to_string(bound.count);
  return bound.time_ns ? text + ", at " + format_time(*bound.time_ns) : text;
}

std::string part_text(const MarkBound& since, const MarkBound& before) {
  std::string text;
  if (since.time_ns) text = "since mark \"" + printable(since.asked) + "\"";
  if (before.time_ns) text += (text.empty() ? "before mark \"" : ", before mark \"") + printable(before.asked) + "\"";
  return text.empty() ? "" : "only " + text;
}

std::string kept_times_text(const MarkInfo& mark) {
  std::string text = printable(mark.name);
  if (mark.count <= 1) return text;
  if (mark.times.empty()) return text + " (" + std::to_string(mark.count) + " times)";
  std::string list;
  for (std::size_t i = 0; i < mark.times.size();) {
    std::size_t last = i;
    while (last + 1 < mark.times.size() && mark.times[last + 1].number == mark.times[last].number + 1) ++last;
    list += (i == 0 ? "#" : ", #") + std::to_string(mark.times[i].number);
    if (last != i) list += " to #" + std::to_string(mark.times[last].number);
    i = last + 1;
  }
  return text + " (" + list + ")";
}

std::vector<MarkShare> mark_shares(const Dump& dump, const std::map<Ref, LabelShare>& labels) {
  std::vector<MarkShare> shares;
  for (const auto& [ref, share] : labels) {
    LabelRecord label;
    if (!dump.label(ref, &label)) continue;
    shares.push_back({name_of(dump, label.mark), name_of(dump, label.range), share.count, share.bytes});
  }
  sort_shares(&shares);
  return shares;
}

void merge_marks(const std::vector<MarkShare>& from, std::vector<MarkShare>* into) {
  if (from.empty()) return;
  std::map<std::pair<std::string, std::string>, MarkShare> sums;
  for (const std::vector<MarkShare>* shares : {&from, static_cast<const std::vector<MarkShare>*>(into)}) {
    for (const MarkShare& share : *shares) {
      MarkShare& sum = sums[{share.mark, share.range}];
      sum.mark = share.mark;
      sum.range = share.range;
      sum.count += share.count;
      sum.bytes += share.bytes;
    }
  }
  into->clear();
  for (auto& [key, share] : sums) into->push_back(std::move(share));
  sort_shares(into);
}

std::string test_name(const std::string& mark) {
  const std::size_t prefix = sizeof(kTestPrefix) - 1;
  return mark.compare(0, prefix, kTestPrefix) == 0 ? mark.substr(prefix) : "";
}

std::string mark_text(const MarkShare& share) {
  if (share.mark.empty() && share.range.empty()) return "(no mark)";
  return share.mark + (share.mark.empty() || share.range.empty() ? "" : " / ") + share.range;
}

const char* mark_kind_name(MarkKind kind) {
  switch (kind) {
    case MarkKind::kMark:
      return "mark";
    case MarkKind::kRange:
      return "range";
    case MarkKind::kMoment:
      return "moment";
    case MarkKind::kRegionName:
    case MarkKind::kNone:
      break;
  }
  return "unknown";
}

}  // namespace culprit::report
