#include "report/render/html/page_causes.h"

#include <nlohmann/json.hpp>

#include "report/model/causes.h"
#include "report/render/html/page_frames.h"

namespace culprit::report {

std::string page_causes() {
  Json causes = Json::object();
  for (const bool kept : {false, true}) {
    for (const Cause cause : kCauses) {
      const CauseRow& row = row_of(cause);
      if ((row.while_running == WhileRunning::kKept) == kept)
        causes[row.name] = {{"title", row.title}, {"running", row.title_while_running}};
    }
  }
  Json evidence = Json::object();
  for (const EvidenceType type : kEvidenceTypes) {
    const EvidenceRow& row = row_of(type);
    evidence[row.name] = {{"label", row.label}, {"event", row.event}};
  }
  return page_text({{"causes", std::move(causes)}, {"evidence", std::move(evidence)}});
}

std::string page_cause_colours() {
  std::string text;
  for (const Cause cause : kCauses) {
    const std::string colour = row_of(cause).colour;
    text += std::string(".cause-") + cause_name(cause) + " { --fill: " + colour + "; }\n";
  }
  for (const EvidenceType type : kEvidenceTypes) {
    if (row_of(type).label[0] == '\0') continue;
    text += std::string(".evidence-") + evidence_name(type) +
            " .evidence-label { background: " + row_of(row_of(type).cause).colour + "; color: #15181d; }\n";
  }
  return text;
}

}  // namespace culprit::report
