// The facts about a run as a whole that a dump states: the process, its devices, and how much of it was recorded.
#pragma once

#include "report/dump/dump_reader.h"
#include "report/dump/process_status.h"
#include "report/model/report.h"

namespace culprit::report {

// A report with these facts and without any group. Never throws for the contents of a dump that is open.
Report read_facts(const Dump& dump, const MachineFacts& machine);

}  // namespace culprit::report
