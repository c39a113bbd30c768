#include "report/model/marks.h"

#include <algorithm>
#include <utility>

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
  for (const MarkRecord& record : dump.marks()) {
    if (record.kind == MarkKind::kRegionName) continue;
    MarkInfo mark;
    mark.name = dump.string(record.name);
    mark.kind = record.kind;
    mark.first_ns = record.first_ns;
    mark.last_ns = record.last_ns;
    mark.count = record.count;
    marks.push_back(std::move(mark));
  }
  std::stable_sort(marks.begin(), marks.end(),
                   [](const MarkInfo& left, const MarkInfo& right) { return left.first_ns < right.first_ns; });
  drop_moments_of_marks(&marks);
  return marks;
}

std::optional<std::uint64_t> time_of_mark(const std::vector<MarkInfo>& marks, const std::string& name) {
  const auto found = std::find_if(marks.begin(), marks.end(), [&](const MarkInfo& mark) { return mark.name == name; });
  return found == marks.end() ? std::nullopt : std::make_optional(found->first_ns);
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
