#include "interpose/call_stack/stack_collection.h"

#include "interpose/dump/event_tables.h"
#include "interpose/python_stacks/python_frames.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

using format::AllocationRecord;
using format::AllocationState;
using format::ChunkType;
using format::Ref;

namespace {

// Reads a field that its owner may store at the same time, with plain instructions: stack_collection.h explains why
// either value is valid. ThreadSanitizer would report a race, so it is off for these two functions.
#if defined(__clang__)  // whose no_sanitize("thread") is for plain instructions only
#define CULPRIT_READS_LIVE __attribute__((noinline, disable_sanitizer_instrumentation))
#else
#define CULPRIT_READS_LIVE __attribute__((noinline, no_sanitize("thread")))
#endif
template <typename Field>
CULPRIT_READS_LIVE Field read_live(const Field& field) {
  Field value;
  __atomic_load(&field, &value, __ATOMIC_ACQUIRE);
  return value;
}

// Forgets an ended allocation. If its owner is reusing the record now, it stores its own flags, which have none of
// these.
CULPRIT_READS_LIVE void forget_ended_record(const AllocationRecord& record) {
  constexpr std::uint8_t kKept = static_cast<std::uint8_t>(~(format::kFlagEnded | format::kFlagTornDown));
  auto* flags = const_cast<std::uint8_t*>(&record.flags);
  __atomic_fetch_or(flags, static_cast<std::uint8_t>(format::kFlagForgotten), __ATOMIC_RELEASE);
  __atomic_fetch_and(flags, kKept, __ATOMIC_RELEASE);
}

}  // namespace

// `forget_ended`: forget ended allocations that are kept for reports of double frees. An empty record without flags may
// be in the middle of being ended: its stack is marked, unless the record was forgotten. Such a record may be ending
// again at this moment; the second marking finds that done.
void StackCollection::mark_allocations(const Parts& parts, bool forget_ended) {
  parts.dump.for_each_record<AllocationRecord>(ChunkType::kAllocations, [&](const AllocationRecord& record) {
    const std::uint32_t state = read_live(record.state);
    if (state == 0) return;  // never used
    const std::uint8_t flags = read_live(record.flags);
    const bool is_empty = format::state_of(state) == AllocationState::kEmpty;
    const bool is_ended = is_empty && (flags & format::kFlagEnded) != 0;
    if (is_ended && forget_ended) {
      forget_ended_record(record);
      return;
    }
    if (is_empty && !is_ended && (flags & format::kFlagForgotten) != 0) return;
    parts.stacks.mark(read_live(record.stack));
    if (is_ended) parts.stacks.mark(read_live(record.ended.stack));
    if (!is_empty && read_live(record.kind) == format::Kind::kGraphMemory)
      parts.stacks.mark(read_live(record.launched.stack));
  });
}

void StackCollection::mark_tables(const Parts& parts) {
  DumpWriter& dump = parts.dump;
  auto mark = [&](const Ref& stack) { parts.stacks.mark(read_live(stack)); };
  dump.for_each_record<format::ThreadCounters>(ChunkType::kCounters, [&](const format::ThreadCounters& block) {
    for (const format::StackCounter& counter : block.stacks) mark(counter.stack);
  });
  dump.for_each_record<format::ContextRecord>(ChunkType::kContexts, [&](const format::ContextRecord& record) {
    mark(record.stack);
    mark(record.destroy_stack);
  });
  dump.for_each_record<format::SiteRecord>(ChunkType::kSites,
                                           [&](const format::SiteRecord& record) { mark(record.stack); });
  dump.for_each_record<format::ErrorRecord>(ChunkType::kErrors, [&](const format::ErrorRecord& record) {
    mark(record.stack);
    mark(record.allocation_stack);
    mark(record.free_stack);
  });
  dump.for_each_record<format::FailedCallRecord>(ChunkType::kFailedCalls,
                                                 [&](const format::FailedCallRecord& record) { mark(record.stack); });
  dump.for_each_record<format::CallChargeRecord>(ChunkType::kCallCharges,
                                                 [&](const format::CallChargeRecord& record) { mark(record.stack); });
  dump.for_each_record<format::SharingRecord>(ChunkType::kSharings, [&](const format::SharingRecord& record) {
    mark(record.stack);
    mark(record.export_stack);
    mark(record.end_stack);
  });
  dump.for_each_record<format::ThrowRecord>(ChunkType::kThrows, [&](const format::ThrowRecord& record) {
    mark(record.stack);
    mark(record.catch_stack);
  });
  dump.for_each_record<format::ReleaseRecord>(ChunkType::kReleases, [&](const format::ReleaseRecord& record) {
    mark(record.stack);
    mark(record.teardown_stack);
  });
  dump.for_each_record<format::BreakdownRecord>(ChunkType::kBreakdowns, [&](const format::BreakdownRecord& record) {
    mark(record.stack);
    for (const format::BreakdownShare& share : record.shares) mark(share.stack);
  });
  dump.for_each_record<format::MarkSumsRecord>(ChunkType::kMarkSums, [&](const format::MarkSumsRecord& record) {
    if (read_live(record.state) == 0) return;
    for (const format::MarkSumShare& share : record.shares) mark(share.stack);
  });
  dump.for_each_record<format::AuditRecord>(ChunkType::kAudits,
                                            [&](const format::AuditRecord& record) { mark(record.stack); });
  mark(dump.header()->exit_stack);
  if (parts.cancels != nullptr) parts.cancels->for_each_stack([&](Ref stack) { parts.stacks.mark(stack); });
}

void StackCollection::finish(const Parts& parts) {
  parts.holders.mark(parts.stacks);
  if (forgot_) mark_allocations(parts, false);
  mark_tables(parts);
  parts.stacks.sweep(parts.dump, [&](std::uint64_t frame) {
    parts.modules.mark(frame);
    if (parts.python != nullptr) parts.python->mark_frame(frame);
  });
  parts.modules.free_unmarked();
  if (parts.python != nullptr) parts.python->sweep(parts.dump);
}

bool StackCollection::wants(const Parts& parts) {
  return parts.stacks.wants_collection() || parts.modules.wants_collection() ||
         (parts.python != nullptr && parts.python->wants_collection());
}

void StackCollection::step(const Parts& parts, const StackHolder* self) {
  advance(parts, self);
  if (phase_.load(std::memory_order_relaxed) == Phase::kIdle || !parts.stacks.is_overgrown()) return;
  sleep_microseconds(200);
}

void StackCollection::advance(const Parts& parts, const StackHolder* self) {
  if (!busy_.try_lock()) return;
  Phase phase = phase_.load(std::memory_order_relaxed);
  if (phase == Phase::kIdle && wants(parts) && parts.holders.all_watched()) {
    forget_ended_ = parts.stacks.is_tight();
    forgot_ = forgot_ || forget_ended_;
    parts.stacks.begin_marking();
    parts.modules.begin_marking();
    if (parts.python != nullptr) parts.python->begin_marking();
    parts.holders.begin_grace_period();
    phase = Phase::kFirstGracePeriod;
  }
  if (phase == Phase::kFirstGracePeriod && parts.holders.grace_period_is_over(self)) {
    parts.holders.mark(parts.stacks);
    mark_allocations(parts, forget_ended_);
    mark_tables(parts);
    parts.holders.begin_grace_period();
    phase = Phase::kSecondGracePeriod;
  }
  if (phase == Phase::kSecondGracePeriod && parts.holders.grace_period_is_over(self) &&
      (parts.breakdowns == nullptr || parts.breakdowns->try_lock())) {
    finish(parts);
    if (parts.breakdowns != nullptr) parts.breakdowns->unlock();
    phase = Phase::kIdle;
  }
  phase_.store(phase, std::memory_order_relaxed);
  busy_.unlock();
}

}  // namespace culprit
