// Memory whose allocating stack was not recorded.
#include "report/causes/event.h"
#include "report/causes/group_facts.h"

namespace culprit::report {
namespace {

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (facts.stack != 0 || facts.known.thrown != 0) return;
  Evidence evidence = evidence_of(EvidenceType::kUnplaced);
  evidence.count = facts.count;
  list->push_back(std::move(evidence));
}

bool whole(const Evidence&) { return true; }

std::vector<EvidenceLine> lines(const Group&, const Evidence&) { return {{"unplaced", "no stack was recorded"}}; }
std::vector<EvidenceField> fields(const Evidence& evidence) { return {{"count", evidence.count}}; }
std::string title(const Evidence&) { return "no stack was recorded"; }
std::string place(const Evidence&) { return {}; }
std::string fate(const Evidence&, bool) { return {}; }
std::string hint(const Group&, const Evidence&) { return "record stacks: CULPRIT_DEPTH must not be 0"; }

}  // namespace

const EvidenceFunctions kUnplacedFunctions = {collect, whole, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
