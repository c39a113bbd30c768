// A finding: something that a report says beside the leaks and the bad frees. One plain structure for all of them, so
// that a format renders each with one function that knows none of them by name. The rows are in findings.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "report/model/questions.h"

namespace culprit::report {

struct Report;
struct ResolvedStack;

enum class FindingKind {
#define FINDING(enumerator, ...) enumerator,
#include "report/findings/findings.def"
};

inline constexpr FindingKind kFindings[] = {
#define FINDING(enumerator, ...) FindingKind::enumerator,
#include "report/findings/findings.def"
};

enum class Severity { kError, kWarning, kNote };

// The formats that have a part of their own for a finding, in place of its sentence.
enum Drawn : unsigned {
  kNowhere = 0,
  kInText = 1,
  kInMarkdown = 2,
  kInPage = 4,
  kAboveHeadline = 8,  // that part stands above the headline of the text and of Markdown, which then need not name it
};

struct FindingRow {
  const char* name;   // "stray-context"
  const char* title;  // "Stray context"
  Severity severity;
  const char* gate;     // a class of --fail-on, "not-known", or ""
  const char* details;  // the member of the JSON report with all facts
  std::optional<Question> question;
  unsigned drawn;   // of Drawn
  const char* one;  // in a headline; "": it is in none
  const char* many;

  bool makes_verdict_not_known() const;
};

const FindingRow& row_of(FindingKind kind);

// "error", "warning", "note": in JSON and SARIF.
const char* severity_name(Severity severity);

struct FindingPlace {
  std::string label;                     // "allocated"
  const ResolvedStack* stack = nullptr;  // never nullptr
};

// All texts are printable and without line breaks.
struct Finding {
  FindingKind kind = FindingKind::kNotRecorded;
  Severity severity = Severity::kNote;  // of the row, or less
  bool asked_for = false;               // CULPRIT_FAIL made it: no headline names it
  std::string title;                    // of the row, or more exact
  std::string headline;                 // a sentence without a full stop, behind the title
  std::uint64_t bytes = 0;              // 0: not known, or it holds none
  std::uint64_t count = 0;              // how often: what a headline adds up
  std::optional<unsigned> device;
  std::vector<std::uint32_t> processes;  // in a merged report: indices into Report::job; the headline names them
  std::vector<FindingPlace> places;
  std::vector<std::string> facts;   // more of them, a line each
  unsigned facts_drawn = kNowhere;  // the formats (Drawn) that show the facts elsewhere
  std::string hint;                 // "": none
  std::size_t more = 0;             // further findings of this row that a list leaves out

  // A place for a stack that is recorded; another one is left out.
  void add_place(const char* label, const ResolvedStack* stack);
};

// Appends the findings of one row: kUnseenUserFinding, ... Each is defined in the file of its row.
using CollectFindings = void (*)(const Report& report, std::vector<Finding>* list);
#define FINDING(enumerator, ...) extern const CollectFindings enumerator##Finding;
#include "report/findings/findings.def"

// Starts a finding of a row and appends it.
Finding& add_finding(FindingKind kind, std::string headline, std::vector<Finding>* list);

// The findings of a process, or of a merged job, in the order of the table: those of one row, or all.
std::vector<Finding> findings_of(const Report& report, FindingKind kind);
std::vector<Finding> findings_of(const Report& report);

// The findings that a format renders with its one function: without the rows that `drawn` (of Drawn) has another part
// for, without those that make the verdict not known, which every format tells first, and with at most `most` of each
// row.
constexpr std::size_t kShownFindings = 20;
constexpr std::size_t kAllFindings = std::numeric_limits<std::size_t>::max();
std::vector<Finding> shown_findings(const Report& report, unsigned drawn, std::size_t most = kShownFindings);

// "Stray context: rank 1 has a context on GPU 0, ...".
std::string sentence_of(const Finding& finding);

// The lines below the sentence: the facts, the hint if it is wanted there, and how many are left out.
std::vector<std::string> lines_below(const Finding& finding, bool with_hint = true);

// The source line that a finding is about, "train.py:4  step": the same in another run, unless the program changed. "":
// not known.
std::string where_of(const Finding& finding);

}  // namespace culprit::report
