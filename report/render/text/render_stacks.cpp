#include "report/render/text/render_stacks.h"

#include <string>

#include "report/base/words.h"
#include "report/dump/dump_reader.h"
#include "report/model/stacks.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"

namespace culprit::report {

void render_stacks(const Dump& dump, const StackResolver& resolver, const std::vector<format::Ref>& numbers,
                   const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  TextFields fields(palette, options, out);
  const CallCounts counts = dump.call_counts();
  for (const format::Ref number : numbers) {
    StackView view;
    if (!dump.stack(number, &view)) continue;
    const auto more = counts.by_stack.find(number);
    const std::uint64_t calls = view.allocations + (more == counts.by_stack.end() ? 0 : more->second);
    out << palette.title("stack " + std::to_string(number)) << " · " << plural(calls, "allocation", "allocations")
        << "\n";
    fields.mixed_stack("allocated", resolver.stack(number).frames);
  }
}

}  // namespace culprit::report
