#include "report/render/render_folded.h"

#include <map>

#include "report/base/words.h"
#include "report/model/frame_text.h"
#include "report/model/report.h"
#include "report/model/sum_up.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

// A semicolon would begin another frame.
std::string folded(const std::string& name) {
  std::string text = printable(name);
  for (char& c : text) {
    if (c == ';') c = ':';
  }
  return text;
}

}  // namespace

void render_folded(const std::vector<Report>& reports, const RenderOptions& options, std::ostream& out) {
  // Leaks that differ only in cause or device share a line.
  std::map<std::string, std::uint64_t> lines;
  for (const Report& report : reports) {
    for (const Group& group : report.leaks) {
      if (!counts_as_leak(group, options.strict)) continue;
      std::string stack;
      const std::vector<const Frame*>& frames = group.stack->frames;
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame)
        stack += folded(frame_function(**frame)) + ";";
      if (frames.empty()) stack = "(stack not recorded);";
      lines[stack + folded(group.api)] += group.bytes;
    }
  }
  for (const auto& [stack, bytes] : lines) out << stack << " " << bytes << "\n";
}

}  // namespace culprit::report
