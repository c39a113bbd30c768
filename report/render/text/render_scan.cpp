#include "report/render/text/render_scan.h"

#include <algorithm>
#include <string>
#include <vector>

#include "report/attach/lost_scan.h"
#include "report/base/words.h"
#include "report/findings/finding.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/render/text/group_text.h"
#include "report/render/text/palette.h"
#include "report/render/text/render_findings.h"

namespace culprit::report {
namespace {

std::string amount(std::uint64_t bytes, std::uint64_t count) {
  return format_bytes(bytes) + " in " + plural(count, "allocation", "allocations");
}

// "NOT KNOWN: kernels ran, ...", "NO LOSS FOUND of 53.7 KiB in 5 allocations live", "LOST 43.0 KiB in 4 allocations,
// ...".
std::string headline(const LostScanResult& scan, const Report& report, const Palette& palette) {
  if (scan.reason == format::LostSearch::kPython)
    return palette.warn("NOT KNOWN") + ": a Python interpreter is in the process: culprit tensors PID names keepers";
  if (scan.reason != format::LostSearch::kDone) {
    const std::string why = why_lost_is_not_known(scan.reason, SearchOf::kRunning);
    return palette.warn("NOT KNOWN") + ": " + (why.empty() ? "the search did not begin" : why);
  }
  const std::string live = " of " + amount(scan.live_bytes, scan.live_count) + " live";
  if (scan.live_count == 0) return palette.good("NOTHING LOST") + ": no GPU memory is live";
  if (report.leaks.empty())
    return palette.good("NO LOSS FOUND") + live + " (stale and the driver's pointers hide some)";
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const Group& group : report.leaks) {
    bytes += group.bytes;
    count += group.count;
  }
  return palette.bad("LOST " + amount(bytes, count)) + ", " + plural(report.leaks.size(), "group", "groups") + "," +
         live;
}

}  // namespace

void render_scan(const LostScanResult& scan, const Report& report, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  out << headline(scan, report, palette) << "\n";
  std::vector<Finding> overwritten;
  kOverwrittenFinding(report, &overwritten);
  for (const Finding& finding : overwritten) render_finding(finding, options, out);
  const std::size_t shown = options.all ? report.leaks.size() : std::min(report.leaks.size(), kShownGroups);
  for (std::size_t i = 0; i < shown; ++i) render_group(report, report.leaks[i], i + 1, options, out);
  if (shown < report.leaks.size()) out << "\nand " << report.leaks.size() - shown << " more groups: --all\n";
}

}  // namespace culprit::report
