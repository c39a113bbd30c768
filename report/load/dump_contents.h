// The first step of a report: reads from a dump all that needs no symbols.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dump/dump_reader.h"
#include "report/dump/mark_sums.h"
#include "report/dump/process_status.h"
#include "report/dump/tables.h"
#include "report/load/gpu_answers.h"
#include "report/load/python_view.h"
#include "report/model/report.h"

namespace culprit::report {

struct DumpContents {
  Report facts;  // about the run as a whole, without groups
  Tables tables;
  std::vector<format::SiteRecord> sites;
  std::vector<format::BreakdownRecord> breakdowns;
  std::vector<format::CallChargeRecord> call_charges;
  std::vector<format::SharingRecord> sharings;
  std::optional<PythonView> python;
  bool without_view = false;  // there is no file of a view from inside Python
  std::vector<GpuAnswer> gpu_answers;
  KeptMarkSums mark_sums;
  bool marked = false;  // the stacks of `mark_sums` are resolved, too
};

struct ContentOptions {
  std::string since_mark;   // only events after this mark (find_mark()); empty: all events
  std::string before_mark;  // only events before this mark; likewise
  bool each = false;        // with the single allocations of each group
  bool marked = false;      // with the stacks of what was live at marks
  OnlyLost only_lost;       // of allocations only these
};

// Never throws for the contents of the dump.
DumpContents read_contents(const Dump& dump, const MachineFacts& machine, const ContentOptions& options);

// All stacks that a report of these contents shows.
std::vector<format::Ref> stacks_of(const DumpContents& contents, const Dump& dump);

}  // namespace culprit::report
