// Facts of two processes, or of two parts of a job, become one fact. None of the results depends on which of the two
// comes first, and parts may be merged in any order: a sum, the least, the largest, or the worst.
#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"

namespace culprit::report {

// Groups with the same merge_key().
void merge(Group&& from, Group* into);
// Errors with the same error_key().
void merge(const ErrorGroup& from, ErrorGroup* into);
// Devices with the same UUID.
void merge(const DeviceInfo& from, DeviceInfo* into);

std::string error_key(const ErrorGroup& error);

// All that merge_key() tells apart, in words: the key's numbers of frames are those of one store.
std::string content_of(const Group& group);

// The threads of one process, summed up by name.
std::vector<ThreadSum> sums_of(const std::vector<ThreadInfo>& threads);

// The state that says most about missing data.
Ended worse(Ended left, Ended right);
format::HolderSearch worse(format::HolderSearch left, format::HolderSearch right);
format::HeapSearch worse(format::HeapSearch left, format::HeapSearch right);
// A reason why memory may be lost although no leak says so: the first by number that a process has.
format::LostSearch worse(format::LostSearch left, format::LostSearch right);

// The earliest of the processes that have the mark.
void merge_bound(const MarkBound& from, MarkBound* into);

// Whether the record of a run says more than another one of the same run.
bool says_more(const RunRecord& left, const RunRecord& right);

}  // namespace culprit::report
