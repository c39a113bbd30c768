// The links of a report to the answers in examples/README.md.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;

// For what the report shows and for its findings, in the order of questions.def.
std::vector<std::string> answer_links(const Report& report);

}  // namespace culprit::report
