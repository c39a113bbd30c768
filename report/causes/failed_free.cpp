// Memory whose free was refused.
#include "report/base/words.h"
#include "report/causes/event.h"
#include "report/causes/group_facts.h"
#include "report/cuda/cuda_names.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"

namespace culprit::report {
namespace {

// The refused free is known even when the table of errors was full, so the evidence may lack the details.
void collect(const GroupFacts& facts, std::vector<Evidence>* list) {
  if (!facts.free_failed) return;
  Evidence evidence = evidence_of(EvidenceType::kFailedFree);
  evidence.stack = &facts.stacks.stack(0);
  evidence.count = facts.count;
  format::ErrorRecord error;
  if (facts.dump.error(facts.known.error, &error)) {
    evidence.stack = &facts.stacks.stack(error.stack);
    evidence.api = api_of(facts.dump, error.api, *evidence.stack);
    evidence.code = error.code;
    evidence.code_name = cuda_result_name(error.code);
    evidence.handle = error.handle;
    evidence.count = error.count;
    evidence.time_ns = error.last_ns;
    evidence.first_ns = error.first_ns;
    evidence.records.push_back(facts.known.error);
  }
  list->push_back(std::move(evidence));
}

std::vector<EvidenceLine> lines(const Group&, const Evidence& evidence) {
  std::string text = evidence.api.empty() ? "a free of it" : printable(evidence.api);
  if (!evidence.code_name.empty()) text += ": " + evidence.code_name;
  return {{"refused", text + times(evidence)}, {"", "", {}, evidence.stack}};
}

std::vector<EvidenceField> fields(const Evidence& evidence) {
  std::vector<EvidenceField> list = {{"api", evidence.api},
                                     {"code", evidence.code},
                                     {"code_name", evidence.code_name},
                                     {"handle", hex_text(evidence.handle)}};
  add_event(evidence, &list);
  return list;
}

std::string title(const Evidence& evidence) {
  return (evidence.api.empty() ? "a free" : evidence.api) + " refused: " + evidence.code_name;
}

std::string place(const Evidence& evidence) { return "free refused here: " + evidence.code_name; }

std::string fate(const Evidence&, bool one) { return one ? "had its free refused" : "had their free refused"; }

// After a kernel has failed, every call on its context fails: CUDA Driver API, CUresult, "leaves the process in an
// inconsistent state".
struct RefusalHint {
  int first;  // CUresult
  int last;
  const char* text;  // appended to the name of the refused call
};
// clang-format off
constexpr RefusalHint kRefusals[] = {
    {201, 201, " found no context: make the memory's device current (cudaSetDevice) in the thread that frees"},
    {700, 700, " returned 700 from an earlier kernel error: the memory stays until the context ends"},
    {702, 702, " returned 702 because a kernel ran too long: the memory stays until the context ends"},
    {709, 709, " came after the end of the memory's context: free before the context is destroyed"},
    {710, 710, " returned 710 from an assert in a kernel: the memory stays until the context ends"},
    {714, 719, " fails since a kernel failed: find it with compute-sanitizer; the memory stays until the context ends"},
    {900, 908, " is not allowed while a stream is being captured: free after the capture"},
};
// clang-format on

std::string hint(const Group&, const Evidence& evidence) {
  for (const RefusalHint& refusal : kRefusals) {
    if (evidence.code >= refusal.first && evidence.code <= refusal.last) return printable(evidence.api) + refusal.text;
  }
  return {};
}

}  // namespace

const EvidenceFunctions kFailedFreeFunctions = {collect, has_stack, lines, fields, title, place, fate, hint};

}  // namespace culprit::report
