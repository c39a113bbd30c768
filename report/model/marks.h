// The names that a program gave to stretches of its time: read from the dump, shared out among the groups.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "report/dump/allocation_groups.h"
#include "report/model/report_model.h"

namespace culprit {

// All marks of the dump, in the order of their first times.
std::vector<MarkInfo> read_marks(const Dump& dump);

// The first time that something with this name was opened, or the moment itself; empty when there is none.
std::optional<std::uint64_t> time_of_mark(const std::vector<MarkInfo>& marks, const std::string& name);

// What of a group was made under which names, largest first.
std::vector<MarkShare> mark_shares(const Dump& dump, const std::map<format::Ref, LabelShare>& labels);

// Adds the shares of one group to another's.
void merge_marks(const std::vector<MarkShare>& from, std::vector<MarkShare>* into);

// The name of a test, without the prefix that says that it is one; empty when the mark names none.
std::string test_name(const std::string& mark);

}  // namespace culprit
