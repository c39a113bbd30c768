#include "report/render/render_gcc.h"

#include <string>

#include "report/base/words.h"
#include "report/model/not_recorded.h"
#include "report/model/other_findings.h"
#include "report/model/report.h"
#include "report/render/annotations.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

const char* word_of(Finding::Level level) {
  switch (level) {
    case Finding::Level::kKnownLeak:
      return "warning";
    case Finding::Level::kNotKnown:
    case Finding::Level::kLeak:
    case Finding::Level::kError:
      break;
  }
  return "error";
}

// gcc names itself where it knows no file.
void print_line(const Annotation& annotation, const std::string& word, std::ostream& out) {
  out << (annotation.file.empty() ? "culprit" : annotation.file);
  if (!annotation.file.empty() && annotation.line != 0) out << ":" << annotation.line;
  out << ": " << word << ": " << annotation.text << "\n";
}

}  // namespace

void render_gcc(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  for (const Report* shown : bad_first(reports)) {
    const Report& report = *shown;
    const std::string program = printable(base_name(report.process.executable));
    const std::vector<Finding> findings = findings_of(report, options.working_folders, options);
    if (findings.empty()) {
      out << "culprit: note: " << program << " [" << report.process.pid << "]: " << verdict_without_leaks(report)
          << "\n";
    }
    for (const Finding& finding : findings) {
      print_line(finding.place, word_of(finding.level), out);
      for (const Annotation& one : finding.more) print_line(one, "note", out);
      if (!finding.hint.empty()) print_line({finding.place.file, finding.place.line, finding.hint}, "note", out);
    }
  }
}

}  // namespace culprit::report
