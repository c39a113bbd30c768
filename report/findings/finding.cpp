#include "report/findings/finding.h"

#include <cstring>
#include <utility>

#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/frames.h"
#include "report/model/program_frames.h"

namespace culprit::report {
namespace {

constexpr auto kError = Severity::kError;
constexpr auto kWarning = Severity::kWarning;
constexpr auto kNote = Severity::kNote;

constexpr FindingRow kRows[] = {
#define FINDING(enumerator, name, title, severity, gate, details, question, drawn, one, many) \
  {name, title, severity, gate, details, question, drawn, one, many},
#include "report/findings/findings.def"
};

constexpr const CollectFindings* kCollect[] = {
#define FINDING(enumerator, ...) &enumerator##Finding,
#include "report/findings/findings.def"
};

// Each text, in one place, so that the file of a finding cannot forget it: names come from dumps.
void make_printable(Finding* finding) {
  finding->title = printable(finding->title);
  finding->headline = printable(finding->headline);
  finding->hint = printable(finding->hint);
  for (std::string& fact : finding->facts) fact = printable(fact);
}

}  // namespace

bool FindingRow::makes_verdict_not_known() const { return std::strcmp(gate, "not-known") == 0; }

const FindingRow& row_of(FindingKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

const char* severity_name(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      break;
  }
  return "note";
}

void Finding::add_place(const char* label, const ResolvedStack* stack) {
  if (stack != nullptr && !stack->frames.empty()) places.push_back({label, stack});
}

Finding& add_finding(FindingKind kind, std::string headline, std::vector<Finding>* list) {
  Finding& finding = list->emplace_back();
  finding.kind = kind;
  finding.severity = row_of(kind).severity;
  finding.title = row_of(kind).title;
  finding.headline = std::move(headline);
  finding.count = 1;
  return finding;
}

std::vector<Finding> findings_of(const Report& report, FindingKind kind) {
  std::vector<Finding> list;
  (*kCollect[static_cast<std::size_t>(kind)])(report, &list);
  for (Finding& finding : list) make_printable(&finding);
  return list;
}

std::vector<Finding> findings_of(const Report& report) {
  std::vector<Finding> list;
  for (const FindingKind kind : kFindings) {
    for (Finding& finding : findings_of(report, kind)) list.push_back(std::move(finding));
  }
  return list;
}

std::vector<Finding> shown_findings(const Report& report, unsigned drawn, std::size_t most) {
  std::vector<Finding> shown;
  for (const FindingKind kind : kFindings) {
    const FindingRow& row = row_of(kind);
    if (row.makes_verdict_not_known() || (row.drawn & drawn) != 0) continue;
    std::vector<Finding> list = findings_of(report, kind);
    if (list.size() > most) {
      const std::size_t more = list.size() - most;
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(most), list.end());
      if (most != 0) list.back().more = more;
    }
    for (Finding& finding : list) shown.push_back(std::move(finding));
  }
  return shown;
}

std::string sentence_of(const Finding& finding) { return finding.title + ": " + finding.headline; }

std::vector<std::string> lines_below(const Finding& finding, bool with_hint) {
  std::vector<std::string> lines = finding.facts;
  if (with_hint && !finding.hint.empty()) lines.push_back("hint: " + finding.hint);
  if (finding.more != 0) lines.push_back("and " + std::to_string(finding.more) + " more of this kind");
  return lines;
}

std::string where_of(const Finding& finding) {
  if (finding.places.empty()) return {};
  const Frame* frame = naming_frame(*finding.places.front().stack);
  return frame == nullptr ? "" : frame_text(*frame);
}

}  // namespace culprit::report
