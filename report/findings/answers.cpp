#include "report/findings/answers.h"

#include <set>

#include "report/findings/finding.h"
#include "report/model/questions.h"

namespace culprit::report {

std::vector<std::string> answer_links(const Report& report) {
  std::set<Question> questions = questions_of(report);
  for (const FindingKind kind : kFindings) {
    const std::optional<Question> question = row_of(kind).question;
    if (question && questions.count(*question) == 0 && !findings_of(report, kind).empty()) questions.insert(*question);
  }
  std::vector<std::string> links;
  links.reserve(questions.size());
  for (const Question question : questions) links.push_back(answer_link(question));
  return links;
}

}  // namespace culprit::report
