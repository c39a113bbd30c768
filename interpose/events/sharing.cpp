#include "interpose/events/sharing.h"

#include "interpose/call_stack/current_stack.h"
#include "interpose/format/device_bytes.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"

namespace culprit {

using format::AllocationRecord;
using format::Ref;
using format::SharingRecord;
using format::SharingRole;

namespace {

// Marks the record, so that its end is noted. Returns false when it ended meanwhile.
bool mark_shared(AllocationRecord* record, std::uint32_t state) {
  const auto flag = static_cast<std::uint8_t>(format::kFlagShared);
  if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) != state) return false;
  __atomic_fetch_or(&record->flags, flag, __ATOMIC_ACQ_REL);
  if (__atomic_load_n(&record->state, __ATOMIC_ACQUIRE) == state) return true;
  __atomic_fetch_and(&record->flags, static_cast<std::uint8_t>(~flag), __ATOMIC_RELEASE);
  return false;
}

void note(Process& process, Api api, SharingRole role, Ref ref, const SharedHandle& shared) {
  auto* record = process.dump.at<AllocationRecord>(ref);
  const std::uint32_t state = __atomic_load_n(&record->state, __ATOMIC_ACQUIRE);
  const Ref here = current_stack(process);
  SharingRecord sharing = {};
  sharing.type = shared.type;
  sharing.role = role;
  sharing.device = record->device;
  sharing.kind = record->kind;
  sharing.key = shared.key;
  sharing.time_ns = now_ns(process);
  sharing.stack = here;
  if (role == SharingRole::kExport) {
    sharing.bytes = record->bytes;
    sharing.stack = record->stack;
    sharing.export_stack = here;
  }
  sharing.allocation = ref;
  sharing.thread = thread_state.index;
  sharing.api = static_cast<std::uint16_t>(api);
  if (!process.tables.sharings.add(sharing, process.dump)) {
    add_counter(process.dump.header()->dropped_others, 1);
  } else if (!mark_shared(record, state)) {
    process.tables.sharings.end(ref, sharing.time_ns, 0, process.dump);
  }
}

bool is_off(const Process& process) { return (process.mode.load(std::memory_order_relaxed) & kModeOff) != 0; }

}  // namespace

void note_exported(Api api, format::Kind kind, std::uint64_t handle, const SharedHandle& shared) {
  if (shared.type == format::SharingType::kNone) return;
  record_on_own_stack([&](Process& process) {
    if (is_off(process)) return;
    if (shared.key != 0 && process.tables.sharings.count_again(shared.key, SharingRole::kExport, process.dump)) return;
    Ref ref = process.tables.live.find(space_of(kind), handle, format::kNoDevice, process.dump);
    if (ref == 0) ref = process.tables.live.find_containing(space_of(kind), handle, process.dump);
    if (ref != 0) note(process, api, SharingRole::kExport, ref, shared);
  });
}

void note_imported(Api api, format::Kind kind, std::uint64_t handle, const SharedHandle& shared) {
  if (shared.type == format::SharingType::kNone) return;
  record_on_own_stack([&](Process& process) {
    if (is_off(process)) return;
    const Ref ref = process.tables.live.find(space_of(kind), handle, format::kNoDevice, process.dump);
    if (ref != 0) note(process, api, SharingRole::kImport, ref, shared);
  });
}

void note_sharing_ended(Process& process, Ref allocation, Ref stack) {
  on_own_stack([&] { process.tables.sharings.end(allocation, now_ns(process), stack, process.dump); });
}

}  // namespace culprit
