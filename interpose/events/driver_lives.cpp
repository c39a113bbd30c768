#include "interpose/events/driver_lives.h"

#include "interpose/format/device_bytes.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/process/recording.h"

namespace culprit {
namespace {

void forget_ended_lives(Process& process) {
  LifeSet ended;
  if (!take_ended_lives(&ended)) return;
  thread_state.dump.context.forget();
  std::int64_t bytes[ContextTable::kMostDevices] = {};
  process.tables.live.forget_lives(ended, process.dump, [&](const format::AllocationRecord& record) {
    if (is_on_device(record.kind) && record.device < ContextTable::kMostDevices)
      bytes[record.device] += static_cast<std::int64_t>(physical_bytes(record));
  });
  for (int device = 0; device < ContextTable::kMostDevices; ++device) {
    if (bytes[device] != 0)
      change_live_bytes(process, static_cast<std::uint8_t>(device), format::Kind::kManaged, -bytes[device]);
  }
  std::uint32_t context = format::kNoIndex;
  while ((context = process.tables.contexts.take_of_lives(ended)) != format::kNoIndex)
    meter_of(process).note_context_ended(process, context);
  code_of(process).forget_kernels();
}

}  // namespace

void keep_lives_apart_here() {
  Process* process = process_if_recording();
  if (process == nullptr) {
    LifeSet without_records;
    take_ended_lives(&without_records);
    return;
  }
  if (has_several_lives()) process->mode.fetch_or(kModeSeveralLives, std::memory_order_release);
  // A thread's young records have no life.
  if (has_several_drivers() && process->tables.live.has_young()) process->tables.live.pause_young(process->dump);
  if (!has_ended_lives() || thread_state.in_tracker) return;  // a later call does it
  record_on_own_stack(forget_ended_lives);
}

void look_for_closed_drivers() {
  drop_closed_drivers();
  keep_lives_apart();
}

}  // namespace culprit
