// A variable that was assigned anew without a free. judge/overwritten.h decides which.
#include "report/model/overwritten.h"

#include <utility>

#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/findings/place_words.h"
#include "report/findings/process_words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

// How the place may have lost its pointers otherwise; "" for variables.
const char* other_way(OverwrittenPlace place) {
  switch (place) {
    case OverwrittenPlace::kVariable:
    case OverwrittenPlace::kLocal:
      return "";
    case OverwrittenPlace::kMember:
      return " (or its object was replaced)";
    case OverwrittenPlace::kValue:
      return " (or entries were erased)";
    case OverwrittenPlace::kInBlock:
      return " (or its block was left)";
  }
  return "";
}

// "g_buffer", "buffer of serve()".
std::string place_name(const Overwritten& one) {
  return printable(one.variable) + (one.function.empty() ? "" : " of " + printable(one.function) + "()");
}

void collect_overwritten(const Report& report, std::vector<Finding>* list) {
  for (const Overwritten& one : report.overwritten) {
    const std::string variable = place_name(one);
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
    std::string fact = "no pointer is left to the ";
    fact += one.count == 1 ? "allocation" : plural(one.count, "allocation", "allocations");
    fact += line.empty() ? " of that line" : " of " + line;
    fact += " before the last one, which " + variable + " has";
    finding.facts.push_back(std::move(fact));
    finding.hint =
        "free what `" + printable(one.variable) + "` has before it gets another pointer, or give it an owner (RAII)";
  }
}

}  // namespace

const CollectFindings kOverwrittenFinding = collect_overwritten;

}  // namespace culprit::report
