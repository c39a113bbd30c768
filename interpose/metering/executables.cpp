#include "interpose/metering/executables.h"

#include "interpose/metering/metered_calls.h"
#include "interpose/process/recording.h"

namespace culprit {

using format::AllocationRecord;
using format::BillRecord;
using format::Kind;
using format::Ref;

namespace {

AllocationRecord* record_of(Process& process, std::uint64_t exec) {
  const Ref ref = process.tables.live.find(space_of(Kind::kGraphExec), exec, format::kNoDevice, process.dump);
  if (ref == 0) return nullptr;
  auto* record = process.dump.at<AllocationRecord>(ref);
  return record->kind == Kind::kGraphExec ? record : nullptr;
}

// The bill that the executable is counted on.
BillRecord bill_of(const AllocationRecord& record) {
  BillRecord bill = {};
  bill.stack = record.stack;
  bill.first_ns = bill.last_ns = record.time_ns;
  bill.thread = record.thread;
  bill.context = record.context;
  bill.api = record.api;
  bill.device = record.device;
  bill.what = format::DriverMemory::kGraphExecutables;
  return bill;
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
    if (!process.tables.bills.count_made(bill_of(*record), process.dump))
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
  record_on_own_stack([&](Process& process) { bill_ = bill_of(*process.dump.at<AllocationRecord>(record)); });
}

void ExecutableEnd::finish() {
  if (bill_.what == format::DriverMemory::kNone) return;
  record_on_own_stack([&](Process& process) { process.tables.bills.count_destroyed(bill_, process.dump); });
}

}  // namespace culprit
