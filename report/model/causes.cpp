// The rows of causes and evidence. Scripts rely on the names.
#include "report/model/causes.h"

namespace culprit::report {
namespace {

constexpr CauseRow kCauseRows[] = {
#define CAUSE(enumerator, name, while_running, title, title_while_running, colour, sentence) \
  {name, WhileRunning::while_running, title, title_while_running, colour, sentence},
#include "report/model/causes.def"
};

constexpr EvidenceRow kEvidenceRows[] = {
#define EVIDENCE(enumerator, name, cause, label, event) {name, Cause::cause, label, event},
#include "report/model/causes.def"
};

}  // namespace

const CauseRow& row_of(Cause cause) { return kCauseRows[static_cast<std::size_t>(cause)]; }

const EvidenceRow& row_of(EvidenceType type) { return kEvidenceRows[static_cast<std::size_t>(type)]; }

}  // namespace culprit::report
