// Where the documentation answers the questions that people ask: the table questions.def.
#pragma once

#include <string>
#include <vector>

namespace culprit::report {

struct Report;

enum class Question {
#define QUESTION(enumerator, heading) enumerator,
#include "report/model/questions.def"
};

// "examples/README.md#memory-without-a-process".
std::string answer_link(Question question);

// The links for what the report shows, in the table's order.
std::vector<std::string> answer_links(const Report& report);

}  // namespace culprit::report
