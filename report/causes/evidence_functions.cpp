#include "report/causes/evidence_functions.h"

namespace culprit::report {

const EvidenceFunctions& functions_of(EvidenceType type) {
  static constexpr const EvidenceFunctions* kFunctions[] = {
#define EVIDENCE(enumerator, ...) &enumerator##Functions,
#include "report/model/causes.def"
  };
  return *kFunctions[static_cast<std::size_t>(type)];
}

}  // namespace culprit::report
