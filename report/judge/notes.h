// The notes of a report of one process: the limits of its facts, and how to see more.
#pragma once

#include "report/dump/dump_reader.h"

namespace culprit::report {

struct Report;
class StackResolver;

// Appends the notes to Report::notes. The groups must have their causes; `stacks` are those of the report;
// `without_view`: there is no view from inside Python.
void add_notes(const format::Header& header, const StackResolver& stacks, bool without_view, Report* report);

}  // namespace culprit::report
