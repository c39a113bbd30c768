// How dumps become reports.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dump/allocation_groups.h"
#include "report/dump/process_status.h"
#include "report/symbols/symbolizer.h"

namespace culprit::report {

struct JobCache;

struct JudgeOptions {
  bool default_suppressions = true;  // list memory that libraries hold for themselves in a section of its own
  bool strict = false;               // count that section and cached memory as leaks
  bool ids = true;  // give the groups their ids; a caller that merges groups assigns the ids afterwards
};

struct LoadOptions {
  SymbolOptions symbols;
  SymbolLookup lookup;  // in place of look_up_symbols, for tests
  JudgeOptions judge;
  bool full_stacks = false;
  bool each = false;        // fill Group::each
  std::string since_mark;   // only events after this mark (find_mark()); empty: all events
  std::string before_mark;  // only events before this mark; likewise
  bool marked = false;      // fill the groups of Report::marked, and Report::live_now
  // Of allocations only these, which a search of the running process has found lost.
  OnlyLost only_lost;
  MachineFacts machine;
  JobCache* cache = nullptr;  // of the thread that makes the report, which nothing else uses meanwhile; nullptr: none
};

}  // namespace culprit::report
