// The last step of a report: facts, groups and verdicts become one report with its totals and notes.
#pragma once

#include <memory>

#include "report/dump/dump_reader.h"
#include "report/judge/holder_groups.h"
#include "report/judge/judge.h"
#include "report/load/dump_contents.h"
#include "report/model/report.h"
#include "report/model/stacks.h"

namespace culprit::report {

class StackOwners;

// Takes its arguments over. The report owns `stacks` and the Python holders, and needs the dump no more. `strict`:
// JudgeOptions::strict.
Report summarise(DumpContents contents, const Dump& dump, std::shared_ptr<const StackResolver> stacks,
                 const HolderGroups& groups, Verdicts verdicts, StackOwners* owners, bool strict);

}  // namespace culprit::report
