#include "interpose/dump/audit_table.h"

#include <cstring>

#include "interpose/dump/thread_counters.h"

namespace culprit {

using format::AuditRecord;
using format::Ref;

namespace {

void count(const AuditedCall& call, AuditRecord* record) {
  add_counter(record->calls, 1);
  if (call.recorded) return;
  add_counter(record->not_recorded, 1);
  add_counter(record->bytes, call.bytes);
}

}  // namespace

Ref AuditTable::add_record(const Function& function, const AuditedCall& call, Ref stack, DumpWriter& dump) {
  const Ref ref = dump.allocate_records(format::ChunkType::kAudits, 1, nullptr);
  if (ref == 0) return 0;
  auto* record = dump.at<AuditRecord>(ref);
  record->function = function.symbol;
  record->stack = stack;
  record->thread = call.thread;
  record->first_ns = call.time_ns;
  __atomic_store_n(&record->state, 1U, __ATOMIC_RELEASE);
  return ref;
}

bool AuditTable::add(const AuditedCall& call, DumpWriter& dump) {
  SpinGuard guard(lock_);
  Function& function = functions_[call.id];
  if (function.symbol == 0) function.symbol = dump.add_string(call.symbol, std::strlen(call.symbol));
  if (function.symbol != 0 && function.calls == 0) function.calls = add_record(function, call, 0, dump);
  if (function.calls == 0) return false;
  count(call, dump.at<AuditRecord>(function.calls));
  if (call.recorded || call.stack == 0) return true;
  for (Ref& known : function.stacks) {
    if (known == 0) known = add_record(function, call, call.stack, dump);
    if (known == 0) return false;
    auto* record = dump.at<AuditRecord>(known);
    if (record->stack != call.stack) continue;
    count(call, record);
    return true;
  }
  return true;  // the stacks are examples; the calls are counted above
}

}  // namespace culprit
