// Frees that the driver refused because it was shutting down, in late destructors: no leak and no error.
#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

void collect_releases_refused(const Report& report, std::vector<Finding>* list) {
  const std::uint64_t count = report.summary.late_frees;
  if (count == 0) return;
  add_finding(FindingKind::kReleasesRefused,
              plural(count, "free", "frees") + " came while the driver shut down, which is no leak", list)
      .count = count;
}

}  // namespace

const CollectFindings kReleasesRefusedFinding = collect_releases_refused;

}  // namespace culprit::report
