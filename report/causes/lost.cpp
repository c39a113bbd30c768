// Memory to which no pointer was left at exit. An exception, an error return or a refused free says why; the loss is
// then a fact beside it.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/model/group.h"

namespace culprit::report {
namespace {

void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (facts.allocated == nullptr || facts.allocated->lost == 0) return;
  Evidence evidence = evidence_of(EvidenceType::kLost);
  evidence.count = facts.allocated->lost;
  // The word is said of a group only if all of it is lost.
  if (evidence.count < facts.count) evidence.points_to = Cause::kNeverFreed;
  evidence.indirectly = facts.allocated->lost_indirectly;
  evidence.now = facts.allocated->lost_now;
  evidence.time_ns = facts.dump.header().end_time_ns;
  list->push_back(std::move(evidence));
}

bool whole(const Evidence&) { return true; }

// "no pointer to it was left at exit", "no pointer to 3 of them was left at exit; only ...".
std::string text_of(const Evidence& evidence) {
  const std::uint64_t all = evidence.count;
  const std::uint64_t indirectly = evidence.indirectly;
  const char* left = evidence.now ? " is left" : " was left at exit";
  if (evidence.points_to != Cause::kLost) return "no pointer to " + std::to_string(all) + " of them" + left;
  if (indirectly == 0) return std::string("no pointer to ") + (all == 1 ? "it" : "them") + left;
  const std::string only = "only memory that is lost too has ";
  if (indirectly >= all) return only + (all == 1 ? "a pointer to it" : "pointers to them");
  return "no pointer to " + std::to_string(all - indirectly) + " of them" + left + "; " + only + "pointers to the " +
         (indirectly == 1 ? "other one" : "other " + std::to_string(indirectly));
}

std::vector<EvidenceLine> lines(const Group&, const Evidence& evidence) { return {{"lost", text_of(evidence)}}; }

std::vector<EvidenceField> fields(const Evidence& evidence) {
  return {{"count", evidence.count}, {"indirectly", evidence.indirectly}};
}

std::string title(const Evidence& evidence) { return text_of(evidence); }

std::string place(const Evidence&) { return {}; }

std::string fate(const Evidence&, bool one) { return one ? "is lost" : "are lost"; }

std::string hint(const Group& group, const Evidence&) {
  return std::string("no code can free ") + (group.count == 1 ? "it" : "them") +
         " any more: free where the last pointer is dropped or overwritten, or give it an owner (RAII)";
}

}  // namespace

const EvidenceFunctions kLostFunctions = {collect, whole, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
