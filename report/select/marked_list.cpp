#include "report/select/marked_list.h"

#include <vector>

#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/causes.h"
#include "report/model/marks.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

void add_groups(const std::vector<Group>& groups, bool at_mark, LeakList* list) {
  for (const Group& group : groups) {
    ListedLeak& listed = list->leaks[group.id];
    const bool live = at_mark && group.cause != Cause::kCached;
    listed.leak.add(group.bytes, group.count, live ? kLiveCause : cause_name(group.cause));
    listed.leak.kind = kind_name(group.kind);
    set_place(*group.stack, group.api, &listed.leak);
    if (listed.frames.empty()) listed.frames = group.stack->frames;
  }
}

LeakList empty_list(const Report& report, const char* source) {
  LeakList list;
  list.path = report.dump_path;
  list.source = source;
  list.owners.push_back(report.stacks);
  return list;
}

// "sleep#1, sleep#2, wake": the marks that there are to choose from.
std::string names_of(const std::vector<MarkedMemory>& marked) {
  constexpr std::size_t kNamed = 10;
  std::string names;
  for (std::size_t i = 0; i < marked.size(); ++i) {
    if (i == kNamed) return names + ", and " + std::to_string(marked.size() - i) + " more";
    std::size_t same = 0;
    for (const MarkedMemory& one : marked) same += one.name == marked[i].name ? 1 : 0;
    names += (i == 0 ? "" : ", ") + printable(marked[i].name);
    if (same > 1) names += "#" + std::to_string(marked[i].number);
  }
  return names;
}

[[noreturn]] void no_such_mark(const Report& report, const char* option, const std::string& name) {
  std::string problem = report.dump_path + ": " + option + " " + short_word(name) + ": ";
  const MarkBound bound = find_mark(report.marks, name);
  if (!bound.time_ns) {
    problem += "no such mark was set with its bytes";
  } else if (report.marked_taken > report.marked.size()) {
    problem += "its bytes are not kept, or it was set without them; a dump keeps those of the newest " +
               std::to_string(report.marked.size()) + " moments";
  } else {
    problem += "it was set without its bytes";
  }
  if (report.marked.empty())
    throw NoSuchMark(problem +
                     "; no mark was: use culprit_mark_with_bytes(NAME), in Python culprit.mark(NAME, snapshot=True)");
  throw NoSuchMark(problem + "; there " + (report.marked.size() == 1 ? "is: " : "are: ") + names_of(report.marked));
}

LeakList list_at(const Report& report, const MarkedMemory& marked) {
  LeakList list = empty_list(report, "mark");
  list.mark = ListedMark{marked.name, marked.number, marked.time_ns};
  add_groups(marked.groups, true, &list);
  if (marked.other_count != 0)
    list.notes.push_back("at mark \"" + marked.name +
                         "\" there were more stacks than are kept: " + format_bytes(marked.other_bytes) + " in " +
                         plural(marked.other_count, "allocation", "allocations") + " are left out");
  return list;
}

LeakList list_now(const Report& report) {
  LeakList list = empty_list(report, report.process.status.is_over() ? "end" : "now");
  list.mark = ListedMark{"", 0, 0};
  add_groups(report.live_now, false, &list);
  bool torn_down = false;
  for (const Group& group : report.leaks) torn_down = torn_down || group.cause == Cause::kContextTeardown;
  if (torn_down)
    list.notes.emplace_back(
        "memory that went with its context is no longer live, and not listed here: culprit report lists it");
  return list;
}

}  // namespace

MarkedPair marked_pair(const Report& report, const std::string& from, const std::string& to) {
  const auto end_of = [&](const char* option, const std::string& name) {
    const MarkedMemory* marked = find_marked(report.marked, name);
    if (marked == nullptr) no_such_mark(report, option, name);
    return marked;
  };
  const MarkedMemory* first = from.empty() ? nullptr : end_of("--from", from);
  const MarkedMemory* last = to.empty() ? nullptr : end_of("--to", to);
  if (first != nullptr && last != nullptr && first->time_ns > last->time_ns)
    throw NoSuchMark(report.dump_path + ": --from " + short_word(from) + " was set at " + format_time(first->time_ns) +
                     ", after --to " + short_word(to) + " at " + format_time(last->time_ns) + ": exchange them");
  MarkedPair pair;
  if (first != nullptr) {
    pair.from = list_at(report, *first);
  } else {
    pair.from = empty_list(report, "beginning");
    pair.from.mark = ListedMark{"", 0, 0};
  }
  pair.to = last != nullptr ? list_at(report, *last) : list_now(report);
  pair.to.not_known = reasons_not_known(report);
  for (const std::string& note : report.notes) pair.to.notes.push_back(note);
  return pair;
}

}  // namespace culprit::report
