// The text report with --group-by: one line for each function, library, thread, device, cause, mark or rank, largest
// first.
#include "report/render/text/render_grouped.h"

#include <algorithm>

#include "report/base/words.h"
#include "report/model/report.h"
#include "report/select/grouped_rows.h"
#include "report/select/render_options.h"

namespace culprit::report {

void render_grouped(const Report& report, const RenderOptions& options, std::ostream& out) {
  const std::vector<GroupedRow> rows = grouped_rows(report, options.group_by, options.strict);
  const std::size_t shown = options.all ? rows.size() : std::min(rows.size(), kShownGroups);
  out << "\nby " << options.group_by << "\n";
  for (std::size_t i = 0; i < shown; ++i) {
    const HiddenTotal& total = rows[i].total;
    out << padded_to_width(format_bytes(total.bytes), 10) << padded_to_width(std::to_string(total.allocations) + "x", 8)
        << padded_to_width(plural(total.groups, "group", "groups"), 11) << rows[i].text << "\n";
  }
  if (shown < rows.size()) out << "and " << rows.size() - shown << " more: --all\n";
}

}  // namespace culprit::report
