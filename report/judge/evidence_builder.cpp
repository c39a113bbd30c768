#include "report/judge/evidence_builder.h"

#include "report/cuda/cuda_names.h"
#include "report/judge/library_rules.h"
#include "report/model/causes.h"
#include "report/model/frame_rules.h"
#include "report/model/record_facts.h"
#include "report/model/stacks.h"
#include "report/symbols/demangle.h"

namespace culprit::report {

using namespace format;

namespace {

// `earlier`: the allocation was made by an earlier call of the function that was left. Such an allocation may have been
// handed on to a caller or a global. If others of its stack live on without an exception or failed call, handing on is
// normal for the program, and the exception is not blamed.
bool is_believed(const EvidenceRecord& known, std::uint8_t earlier, Ref stack, const std::set<Ref>& without) {
  return (known.flags & earlier) == 0 || without.count(stack) == 0;
}

Evidence evidence_of(EvidenceType type) {
  Evidence evidence;
  evidence.type = type;
  evidence.points_to = row_of(type).cause;
  return evidence;
}

}  // namespace

EvidenceBuilder::EvidenceBuilder(const Dump& dump, const StackResolver& stacks, const Tables& tables)
    : dump_(dump), stacks_(stacks) {
  for (const AllocationGroup& group : tables.allocations) note_without(group.stack, group.evidence);
  for (const ReleaseRecord& release : tables.releases) note_without(release.stack, release.evidence);
}

void EvidenceBuilder::note_without(Ref stack, Ref evidence) {
  EvidenceRecord known = {};
  if (!dump_.evidence(evidence, &known)) known = {};
  if (known.thrown == 0) without_throw_.insert(stack);
  if (known.failed_call == 0) without_failed_call_.insert(stack);
}

EvidenceBuilder::Facts EvidenceBuilder::facts_of(Ref evidence, Ref stack, std::uint64_t count) const {
  Facts facts;
  if (!dump_.evidence(evidence, &facts.known)) facts.known = {};
  facts.stack = stack;
  facts.count = count;
  return facts;
}

std::vector<Evidence> EvidenceBuilder::of(const AllocationGroup& group) const {
  Facts facts = facts_of(group.evidence, group.stack, group.count);
  facts.free_failed = group.free_failed;
  facts.allocated = &group;
  return all_of(facts);
}

std::vector<Evidence> EvidenceBuilder::of(const ReleaseRecord& release) const {
  Facts facts = facts_of(release.evidence, release.stack, release.count);
  facts.free_failed = facts.known.error != 0;
  facts.released = &release;
  return all_of(facts);
}

std::vector<Evidence> EvidenceBuilder::all_of(const Facts& facts) const {
  std::vector<Evidence> list;
#define EVIDENCE(type, function, ...) add_##function(facts, &list);
#define INFORMATION(...)
#include "report/model/causes.def"
  return list;
}

// The refused free is known even when the table of errors was full, so the evidence may lack the details.
void EvidenceBuilder::add_failed_free(const Facts& facts, std::vector<Evidence>* list) const {
  if (!facts.free_failed) return;
  Evidence evidence = evidence_of(EvidenceType::kFailedFree);
  evidence.stack = &stacks_.stack(0);
  evidence.count = facts.count;
  ErrorRecord error;
  if (dump_.error(facts.known.error, &error)) {
    evidence.stack = &stacks_.stack(error.stack);
    evidence.api = api_of(dump_, error.api, *evidence.stack);
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

void EvidenceBuilder::add_held(const Facts& facts, std::vector<Evidence>* list) const {
  if (facts.allocated == nullptr || facts.allocated->holder == nullptr) return;
  Evidence evidence = evidence_of(EvidenceType::kHeld);
  evidence.stack = &stacks_.stack(0);
  evidence.count = facts.count;
  evidence.time_ns = dump_.header().end_time_ns;
  evidence.variable = facts.allocated->holder;
  evidence.offset = facts.allocated->holder_place & kFrameOffsetMask;
  list->push_back(std::move(evidence));
}

void EvidenceBuilder::add_context_teardown(const Facts& facts, std::vector<Evidence>* list) const {
  if (facts.released == nullptr) return;
  const ReleaseRecord& release = *facts.released;
  Evidence evidence = evidence_of(EvidenceType::kContextTeardown);
  evidence.stack = &stacks_.stack(release.teardown_stack);
  evidence.api = api_of(dump_, release.teardown_api, *evidence.stack);
  evidence.count = release.count;
  evidence.time_ns = release.teardown_ns;
  list->push_back(std::move(evidence));
}

void EvidenceBuilder::add_exception(const Facts& facts, std::vector<Evidence>* list) const {
  const EvidenceRecord& known = facts.known;
  ThrowRecord thrown;
  if (!dump_.thrown(known.thrown, &thrown) || !is_believed(known, kEvidenceEarlier, facts.stack, without_throw_))
    return;
  Evidence evidence = evidence_of(EvidenceType::kException);
  evidence.stack = &stacks_.stack(thrown.stack);
  evidence.exception = type_name(std::string(dump_.string(thrown.type)));
  evidence.what = dump_.string(thrown.what);
  if ((thrown.flags & kThrowCaught) != 0) evidence.caught = &stacks_.stack(thrown.catch_stack);
  evidence.uncaught = (thrown.flags & kThrowUncaught) != 0;
  evidence.forced = (thrown.flags & kThrowForced) != 0;
  evidence.rethrown = (thrown.flags & kThrowRethrown) != 0;
  evidence.ambiguous = (known.flags & kEvidenceAmbiguous) != 0;
  evidence.owner = stacks_.frame_from_outermost(facts.stack, known.thrown_owner);
  evidence.thread = thread_of(dump_, thrown.thread);
  evidence.count = thrown.count;
  evidence.time_ns = thrown.last_ns;
  evidence.first_ns = thrown.first_ns;
  evidence.records.push_back(known.thrown);
  list->push_back(std::move(evidence));
}

// Two calls that share only a library's function, or the start of their thread, are unrelated. So the frame left by an
// error return must be code that could have freed the memory.
void EvidenceBuilder::add_error_return(const Facts& facts, std::vector<Evidence>* list) const {
  const EvidenceRecord& known = facts.known;
  FailedCallRecord failed;
  if (!dump_.failed_call(known.failed_call, &failed) ||
      !is_believed(known, kEvidenceEarlierCall, facts.stack, without_failed_call_))
    return;
  const Frame* owner = stacks_.frame_from_outermost(facts.stack, known.failed_call_owner);
  if (owner == nullptr || is_system_code(*owner) || is_known_library(*owner)) return;
  Evidence evidence = evidence_of(EvidenceType::kErrorReturn);
  evidence.stack = &stacks_.stack(failed.stack);
  evidence.api = api_of(dump_, failed.api, *evidence.stack);
  evidence.code = failed.code;
  evidence.code_name = cuda_result_name(failed.code);
  evidence.injected = (failed.flags & kFailedInjected) != 0;
  evidence.bytes = failed.bytes;
  evidence.owner = owner;
  evidence.thread = thread_of(dump_, failed.thread);
  evidence.count = failed.count;
  evidence.time_ns = failed.last_ns;
  evidence.first_ns = failed.first_ns;
  evidence.records.push_back(known.failed_call);
  list->push_back(std::move(evidence));
}

}  // namespace culprit::report
