#include "report/render/render_csv.h"

#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/model/frame_text.h"
#include "report/model/report.h"
#include "report/model/summary.h"

namespace culprit::report {
namespace {

std::string quoted(const std::string& value) {
  std::string text = "\"";
  for (const char c : printable(value)) {
    if (c == '"') text += '"';
    text += c;
  }
  return text + "\"";
}

}  // namespace

void render_csv(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  out << "bytes,count,kind,cause,api,function\r\n";
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, options.strict)) continue;
      const std::vector<const Frame*>& frames = group.stack->frames;
      out << group.bytes << "," << group.count << "," << kind_name(group.kind) << "," << cause_name(group.cause) << ","
          << quoted(group.api) << "," << quoted(frames.empty() ? "" : frame_function(*frames.front())) << "\r\n";
    }
  }
}

}  // namespace culprit::report
