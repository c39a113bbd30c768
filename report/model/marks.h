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

// A name that the program gave to a stretch of time or to a moment.
struct MarkInfo {
  std::string name;
  format::MarkKind kind = format::MarkKind::kNone;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = 0;
  std::uint64_t count = 0;
};

// All marks of the dump, in the order of their first times.
std::vector<MarkInfo> read_marks(const Dump& dump);

// The first time that a mark with this name was opened, or the moment of that name; empty when there is none.
std::optional<std::uint64_t> time_of_mark(const std::vector<MarkInfo>& marks, const std::string& name);

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
