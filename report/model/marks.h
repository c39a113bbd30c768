// Marks: names that a program gave to stretches of its time. Reads them from the dump and assigns shares to groups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/dump/allocation_groups.h"
#include "report/model/report_model.h"

namespace culprit::report {

// All marks of the dump, in the order of their first times.
std::vector<MarkInfo> read_marks(const Dump& dump);

// The first time that a mark with this name was opened, or the moment of that name; empty when there is none.
std::optional<std::uint64_t> time_of_mark(const std::vector<MarkInfo>& marks, const std::string& name);

// How much of a group was allocated under each mark, largest first.
std::vector<MarkShare> mark_shares(const Dump& dump, const std::map<format::Ref, LabelShare>& labels);

// Adds the shares of one group to those of another.
void merge_marks(const std::vector<MarkShare>& from, std::vector<MarkShare>* into);

// The name of a test, without the prefix that marks a test; empty when the mark is not a test.
std::string test_name(const std::string& mark);

}  // namespace culprit::report
