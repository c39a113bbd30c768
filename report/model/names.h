// Names in the JSON report of enumerations of the dump.
#pragma once

#include "interpose/format/dump_causes.h"
#include "interpose/format/dump_file.h"

namespace culprit::report {

// "done", "off", ...: how the search for holders went, in the JSON report.
const char* holder_search_name(format::HolderSearch state);
// Likewise of the search through the heap.
const char* heap_search_name(format::HeapSearch state);
// Likewise of the search for lost memory: "done", or the reason why there was none.
const char* lost_search_name(format::LostSearch state);
// "double-free": the names in the JSON report.
const char* error_type_name(format::ErrorType type);

}  // namespace culprit::report
