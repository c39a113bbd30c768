#include "report/render/text/render_findings.h"

#include "report/findings/finding.h"
#include "report/findings/headline.h"
#include "report/model/frames.h"
#include "report/render/text/palette.h"
#include "report/render/text/text_fields.h"
#include "report/select/render_options.h"

namespace culprit::report {
namespace {

constexpr std::size_t kShownOfEach = 8;

std::string title_text(const Finding& finding, const Palette& palette) {
  const std::string title = in_capitals(finding.title);
  return finding.severity == Severity::kError ? palette.bad(title) : palette.warn(title);
}

}  // namespace

void render_finding(const Finding& finding, const RenderOptions& options, std::ostream& out) {
  const Palette palette(options.colours);
  out << title_text(finding, palette) << ": " << finding.headline << "\n";
  if ((finding.facts_drawn & kInText) == 0) {
    for (const std::string& fact : finding.facts) out << "  " << fact << "\n";
  }
  if (!finding.hint.empty()) out << "  " << finding.hint << "\n";
  if (options.full_stacks) {
    TextFields fields(palette, options, out);
    for (const FindingPlace& place : finding.places) fields.mixed_stack(place.label, place.stack->frames);
  }
  if (finding.more != 0) out << "  and " << finding.more << " more of this kind: --all\n";
}

void render_findings(const Report& report, const RenderOptions& options, std::ostream& out) {
  for (const Finding& finding : shown_findings(report, kInText, options.all ? kAllFindings : kShownOfEach))
    render_finding(finding, options, out);
}

}  // namespace culprit::report
