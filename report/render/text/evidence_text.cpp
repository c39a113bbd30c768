#include "report/render/text/evidence_text.h"

#include "report/causes/evidence_functions.h"
#include "report/model/evidence.h"
#include "report/model/frames.h"
#include "report/render/text/text_fields.h"

namespace culprit::report {

void print_evidence(const Group& group, const Evidence& evidence, TextFields* fields) {
  for (const EvidenceLine& line : functions_of(evidence.type).lines(group, evidence)) {
    if (line.stack != nullptr) {
      fields->mixed_stack(line.label, line.stack->frames, false);
    } else if (!line.callers.empty()) {
      fields->stack(line.label, line.callers);
    } else {
      fields->field(line.label, line.text);
    }
  }
}

}  // namespace culprit::report
