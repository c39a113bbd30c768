#include "report/select/grouped_rows.h"

#include <algorithm>
#include <map>

#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/merge/spread.h"
#include "report/model/frame_text.h"
#include "report/model/program_frames.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"

namespace culprit::report {
namespace {

std::string thread_text(const Group& group) {
  if (group.thread_sums.size() == 1) return "\"" + printable(group.thread_sums.front().name) + "\"";
  if (group.thread_sums.size() > 1) return "(several threads)";
  if (group.threads.empty()) return "(not recorded)";
  // The bytes of a group are not recorded per thread.
  if (group.threads.size() > 1) return "(several threads)";
  const ThreadInfo& thread = group.threads.front();
  return std::to_string(thread.tid) + " \"" + printable(thread.name) + "\"" + (thread.ended ? ", ended" : "");
}

std::string place_text(const Group& group) {
  const Frame* named = naming_frame(*group.stack);
  if (named == nullptr) return "(stack not recorded)";
  const std::string place = frame_place(*named);
  const std::string function = frame_function(*named);
  // The text of a function without a name already contains its module and offset.
  const bool has_place = function.compare(0, place.size() + 1, place + "+") == 0;
  return place.empty() || has_place ? function : place + "  " + function;
}

std::string library_text(const ResolvedStack& stack) {
  const Frame* named = naming_frame(stack);
  const std::string library = named != nullptr ? library_name(*named) : "";
  return library.empty() ? "(not recorded)" : printable(library);
}

// Groups may share an id: two calls in one function, one call on two devices.
std::string key_of_stack(const Group& group) {
  std::string key =
      group.id + ' ' + (group.device ? std::to_string(*group.device) : "-") + ' ' + cause_name(group.cause);
  for (const Frame* frame : group.stack->frames)
    key += ' ' + std::to_string(frame->python ? frame->line : frame->offset);
  return key;
}

// Code without line information has its function.
std::string line_text(const Group& group) {
  const Frame* named = naming_frame(*group.stack);
  if (named == nullptr) return "(stack not recorded)";
  return named->line != 0 ? frame_place(*named) : frame_function(*named);
}

std::string key_of(const Group& group, const std::string& by) {
  if (by == "line") return line_text(group);
  if (by == "function") {
    const Frame* named = naming_frame(*group.stack);
    return named != nullptr ? frame_function(*named) : "(stack not recorded)";
  }
  if (by == "library") return library_text(*group.stack);
  if (by == "thread") return thread_text(group);
  if (by == "cause") return cause_name(group.cause);
  if (kind_class(group.kind) == KindClass::kHostMemory) return "host";
  if (group.devices.size() > 1) return "(several GPUs)";
  return group.device ? "GPU " + std::to_string(*group.device) : "(not recorded)";
}

// The parts of a row.
struct RowSum {
  HiddenTotal total;
  std::uint64_t first_ns = UINT64_MAX;
  const Group* largest = nullptr;

  void add(const Group& group, std::uint64_t count, std::uint64_t bytes) {
    ++total.groups;
    total.allocations += count;
    total.bytes += bytes;
    first_ns = std::min(first_ns, group.first_ns);
    if (largest == nullptr || group.bytes > largest->bytes) largest = &group;
  }
  void add(const Group& group) { add(group, group.count, group.bytes); }
};
using RowSums = std::map<std::string, RowSum>;

// Each mark gets its share of the group; the rest goes to "(no mark)".
void add_by_mark(const Group& group, RowSums* totals) {
  HiddenTotal rest;
  rest.add(group);
  for (const MarkShare& share : group.marks) {
    (*totals)[printable(mark_text(share))].add(group, share.count, share.bytes);
    rest.allocations -= std::min(share.count, rest.allocations);
    rest.bytes -= std::min(share.bytes, rest.bytes);
  }
  if (rest.allocations != 0) (*totals)[mark_text({})].add(group, rest.allocations, rest.bytes);
}

// A merged group is divided among its processes by their shares.
void add_by_rank(const Report& report, const Group& group, RowSums* totals) {
  for (const Share& share : group.shares)
    (*totals)[processes_text(report.job, {share.process})].add(group, share.count, share.bytes);
  if (!group.shares.empty()) return;
  const ProcessInfo& process = report.process;
  (*totals)[process.rank ? ranks_text({*process.rank}) : "process " + std::to_string(process.pid)].add(group);
}

}  // namespace

std::vector<GroupedRow> grouped_rows(const Report& report, const std::string& by, bool strict) {
  RowSums totals;
  std::vector<GroupedRow> rows;
  const auto add_row = [&rows](const std::string& key, const std::string& text, const RowSum& sum) {
    rows.push_back({key, text, sum.total, sum.first_ns, sum.largest});
  };
  for (const Group& group : report.leaks) {
    if (!counts_as_leak(group, strict)) continue;
    if (by == "stack") {
      RowSum sum;
      sum.add(group);
      add_row(key_of_stack(group), printable(group.api) + "  " + place_text(group), sum);
    } else if (by == "mark") {
      add_by_mark(group, &totals);
    } else if (by == "rank") {
      add_by_rank(report, group, &totals);
    } else {
      totals[key_of(group, by)].add(group);
    }
  }
  for (const auto& [key, sum] : totals) add_row(key, key, sum);
  std::stable_sort(rows.begin(), rows.end(), [](const GroupedRow& left, const GroupedRow& right) {
    return left.total.bytes > right.total.bytes;
  });
  return rows;
}

}  // namespace culprit::report
