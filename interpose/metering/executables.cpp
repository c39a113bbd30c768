#include "interpose/metering/executables.h"

#include "interpose/metering/metered_calls.h"
#include "interpose/process/recording.h"

namespace culprit {

using format::AllocationRecord;
using format::CallChargeRecord;
using format::Kind;
using format::Ref;

namespace {

AllocationRecord* record_of(Process& process, std::uint64_t exec) {
  const Ref ref = process.tables.live.find(space_of(Kind::kGraphExec), exec, format::kNoDevice, process.dump);
  if (ref == 0) return nullptr;
  auto* record = process.dump.at<AllocationRecord>(ref);
  return record->kind == Kind::kGraphExec ? record : nullptr;
}

// The charge that the executable is counted on.
CallChargeRecord call_charge_of(const AllocationRecord& record) {
  CallChargeRecord charge = {};
  charge.stack = record.stack;
  charge.first_ns = charge.last_ns = record.time_ns;
  charge.thread = record.thread;
  charge.context = record.context;
  charge.api = record.api;
  charge.device = record.device;
  charge.what = format::DriverMemory::kGraphExecutables;
  return charge;
}

void add_taken(AllocationRecord& record, std::int64_t taken) {
  if (taken > 0) __atomic_fetch_add(&record.extra, static_cast<std::uint64_t>(taken), __ATOMIC_RELAXED);
}

}  // namespace

void note_executable_made(std::uint64_t exec, std::int64_t taken) {
  forget_graph_launch(reinterpret_cast<CUgraphExec>(exec));
  record_on_own_stack([&](Process& process) {
    AllocationRecord* record = record_of(process, exec);
    if (record == nullptr) return;  // recording is off, or there was no room
    add_taken(*record, taken);
    if (!process.tables.call_charges.count_made(call_charge_of(*record), process.dump))
      add_counter(process.dump.header()->dropped_others, 1);
  });
}

void note_executable_grown(std::uint64_t exec, std::int64_t taken) {
  record_on_own_stack([&](Process& process) {
    AllocationRecord* record = record_of(process, exec);
    if (record != nullptr) add_taken(*record, taken);
  });
}

ExecutableEnd::ExecutableEnd(Ref record) {
  if (record == 0) return;
  record_on_own_stack([&](Process& process) { charge_ = call_charge_of(*process.dump.at<AllocationRecord>(record)); });
}

void ExecutableEnd::finish() {
  if (charge_.what == format::DriverMemory::kNone) return;
  record_on_own_stack([&](Process& process) { process.tables.call_charges.count_destroyed(charge_, process.dump); });
}

}  // namespace culprit
