// The text report with --group-by: one line for each function, library, thread, device or cause, largest first.
#include <algorithm>
#include <map>

#include "report/kinds.h"
#include "report/render.h"
#include "report/summary.h"
#include "report/text_fields.h"
#include "report/text_style.h"

namespace culprit {
namespace {

const Frame* caller_of(const Group& group) {
  if (group.stack->caller != nullptr || group.stack->frames.empty()) return group.stack->caller;
  return group.stack->frames.front();
}

std::string thread_text(const Group& group) {
  if (group.threads.empty()) return "(not recorded)";
  // A group has the bytes of all its threads together: they cannot be told apart.
  if (group.threads.size() > 1) return "(several threads)";
  const ThreadInfo& thread = group.threads.front();
  return std::to_string(thread.tid) + " \"" + printable(thread.name) + "\"" + (thread.ended ? ", ended" : "");
}

std::string key_of(const Group& group, const std::string& by) {
  const Frame* caller = caller_of(group);
  if (by == "function") return caller != nullptr ? frame_function(*caller) : "(stack not recorded)";
  if (by == "library")
    return caller != nullptr && caller->module != nullptr ? printable(caller->module->name) : "(not recorded)";
  if (by == "thread") return thread_text(group);
  if (by == "cause") return cause_name(group.cause);
  if (kind_class(group.kind) == KindClass::kHostMemory) return "host";
  return group.device ? "GPU " + std::to_string(*group.device) : "(not recorded)";
}

}  // namespace

void render_grouped(const Report& report, const RenderOptions& options, std::ostream& out) {
  std::map<std::string, HiddenTotal> totals;
  for (const Group& group : report.leaks) {
    if (counts_as_leak(group, options.strict)) totals[key_of(group, options.group_by)].add(group);
  }
  std::vector<std::pair<std::string, HiddenTotal>> rows(totals.begin(), totals.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& left, const auto& right) { return left.second.bytes > right.second.bytes; });
  const std::size_t shown = options.all ? rows.size() : std::min(rows.size(), kShownGroups);
  out << "\nby " << options.group_by << "\n";
  for (std::size_t i = 0; i < shown; ++i) {
    const HiddenTotal& total = rows[i].second;
    out << padded(format_bytes(total.bytes), 10) << padded(std::to_string(total.allocations) + "x", 8)
        << padded(plural(total.groups, "group", "groups"), 11) << rows[i].first << "\n";
  }
  if (shown < rows.size()) out << "and " << rows.size() - shown << " more: --all\n";
}

}  // namespace culprit
