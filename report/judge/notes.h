// The notes of a report of one process: the limits of its facts, and how to see more.
#pragma once

#include "report/dump/dump_reader.h"

namespace culprit::report {

struct Report;
class StackResolver;

// Appends the notes to Report::notes. The groups must have their causes; `stacks` are those of the report.
void add_notes(const format::Header& header, const StackResolver& stacks, Report* report);

}  // namespace culprit::report
