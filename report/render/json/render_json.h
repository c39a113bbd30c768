// The report as JSON: report/SCHEMA.md.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace culprit::report {

struct ErrorGroup;
struct Group;
struct Report;
struct ResolvedStack;

// One report is an object of schema culprit.report/1; several are the list in an object of culprit.reports/1. Invalid
// UTF-8 is replaced.
// `nothing_known`: see summary_of_all().
void render_json(const std::vector<Report>& reports, std::ostream& out, bool nothing_known = false);

// One group, one error or one stack, as an object of JSON text.
std::string group_as_json(const Group& group);
std::string error_as_json(const ErrorGroup& error);
std::string stack_as_json(const ResolvedStack& stack);

}  // namespace culprit::report
