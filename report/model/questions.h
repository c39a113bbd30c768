// Where the documentation answers the questions that people ask: the table questions.def.
#pragma once

#include <set>
#include <string>

namespace culprit::report {

struct Report;

enum class Question {
#define QUESTION(enumerator, heading) enumerator,
#include "report/model/questions.def"
};

// "examples/README.md#memory-without-a-process".
std::string answer_link(Question question);

// The questions that the leaks, caches and devices of the report raise. Its findings raise more: findings/answers.h.
std::set<Question> questions_of(const Report& report);

}  // namespace culprit::report
