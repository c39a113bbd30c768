// Marks: names that a program gave to stretches of its time. Reads them from the dump and assigns shares to groups.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "interpose/format/dump_file.h"
#include "interpose/format/dump_records.h"

namespace culprit::report {

class Dump;
struct LabelShare;

// The part of a group that was allocated in one mark and NVTX range, the innermost ones open in the thread.
struct MarkShare {
  std::string mark;   // empty: no mark was open
  std::string range;  // empty: no range was open
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
};

// One time at which a mark was opened, or its moment was set.
struct MarkTime {
  std::uint64_t number = 0;  // 1 = the first
  std::uint64_t time_ns = 0;
};

// A name that the program gave to a stretch of time or to a moment.
struct MarkInfo {
  std::string name;
  format::MarkKind kind = format::MarkKind::kNone;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t count = 0;
  std::vector<MarkTime> times;  // those that are kept, by number; the first and the last always are. Merged: empty
};

// The name of a mark as an option has it, "NAME" or "NAME#N", without and with its number.
struct MarkName {
  std::string name;
  std::uint64_t number = 0;  // 0: it has none
};
MarkName split_mark_name(const std::string& text);

// A mark that limits a report.
struct MarkBound {
  std::string asked;  // "NAME" or "NAME#N"; empty: no limit
  std::string name;
  std::uint64_t number = 0;              // which time of the mark it is
  std::uint64_t count = 0;               // how often it was set
  std::optional<std::uint64_t> time_ns;  // empty: the process has no such mark
};

// All marks of the dump, in the order of their first times.
std::vector<MarkInfo> read_marks(const Dump& dump);

// The mark that `asked` names: the last time of a mark with this name, or with "#N" after it, its Nth time. A name that
// ends like that itself comes first. Without `time_ns` when there is none.
MarkBound find_mark(const std::vector<MarkInfo>& marks, const std::string& asked);

// `"epoch", number 2 of 4, at 1.2 s`; `"warm", at 1.2 s` when it was set once.
std::string bound_text(const MarkBound& bound);

// `only since mark "epoch", only before mark "end"`, for the first line of a report; empty: it shows the whole run.
std::string part_text(const MarkBound& since, const MarkBound& before);

// "epoch (#1, #40 to #52)": a name, and its times that are kept; "epoch" when it was set once.
std::string kept_times_text(const MarkInfo& mark);

// How much of a group was allocated under each mark, largest first.
std::vector<MarkShare> mark_shares(const Dump& dump, const std::map<format::Ref, LabelShare>& labels);

// Adds the shares of one group to those of another.
void merge_marks(const std::vector<MarkShare>& from, std::vector<MarkShare>* into);

// "epoch 3", "epoch 3 / forward" (the mark, then the NVTX range), "(no mark)".
std::string mark_text(const MarkShare& share);
// "mark", "range", "moment": the kind in the JSON report.
const char* mark_kind_name(format::MarkKind kind);

// The name of a test, without the prefix that marks a test; empty when the mark is not a test.
std::string test_name(const std::string& mark);

}  // namespace culprit::report
