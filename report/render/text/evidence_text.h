// Evidence in the text report.
#pragma once

namespace culprit::report {

class TextFields;
struct Evidence;
struct Group;

// Prints the lines for one piece of evidence below a group.
void print_evidence(const Group& group, const Evidence& evidence, TextFields* fields);

}  // namespace culprit::report
