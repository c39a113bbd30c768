// A variable that was assigned anew without a free. judge/overwritten.h decides which.
#include "report/model/overwritten.h"

#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/findings/place_words.h"
#include "report/findings/process_words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// How the place may have lost its pointers otherwise; "" for a variable.
const char* other_way(OverwrittenPlace place) {
  switch (place) {
    case OverwrittenPlace::kVariable:
      return "";
    case OverwrittenPlace::kMember:
      return " (or its object was replaced)";
    case OverwrittenPlace::kValue:
      return " (or entries were erased)";
  }
  return "";
}

void collect_overwritten(const Report& report, std::vector<Finding>* list) {
  for (const Overwritten& one : report.overwritten) {
    const std::string variable = printable(one.variable);
    Finding& finding = add_finding(FindingKind::kOverwritten,
                                   whose_prefix(report, one.process) + variable + " was overwritten " +
                                       plural(one.count, "time", "times") + " without a free" + other_way(one.place) +
                                       ", " + format_bytes(one.bytes) + " lost",
                                   list);
    finding.bytes = one.bytes;
    finding.count = one.count;
    finding.device = one.device;
    if (!report.job.empty()) finding.processes = {one.process};
    finding.add_place("allocated", one.stack);
    const std::string line = maker_of(*one.stack);
    finding.facts.push_back("no pointer is left to the " +
                            std::string(one.count == 1 ? "allocation" : std::to_string(one.count) + " allocations") +
                            (line.empty() ? " of that line" : " of " + line) + " before the last one, which " +
                            variable + " has");
    finding.hint = "free what `" + variable + "` has before it gets another pointer, or give it an owner (RAII)";
  }
}

}  // namespace

const CollectFindings kOverwrittenFinding = collect_overwritten;

}  // namespace culprit::report
