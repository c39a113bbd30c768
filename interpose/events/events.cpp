#include "interpose/events/events.h"

#include "interpose/call_stack/current_stack.h"
#include "interpose/control/marks.h"
#include "interpose/control/recording_switch.h"
#include "interpose/events/announced_memory.h"
#include "interpose/events/pool_places.h"
#include "interpose/events/probes.h"
#include "interpose/events/record_ends.h"
#include "interpose/events/sharing.h"
#include "interpose/events/streams.h"
#include "interpose/format/device_bytes.h"
#include "interpose/metering/executables.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/metering/metering_state.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/current_place.h"
#include "interpose/process/recording.h"
#include "interpose/system/own_stack.h"

namespace culprit {

using format::AllocationRecord;
using format::ErrorType;
using format::Kind;
using format::Ref;

namespace {

CULPRIT_HOT Place place_of_stream(Process& process, CUstream stream) {
  std::uint32_t epoch = process.hooks.stream_epoch.load(std::memory_order_acquire);
  std::uint32_t context_epoch = process.tables.contexts.epoch();
  ThreadState& thread = thread_state;
  if (thread.dump.stream.handle == stream && thread.dump.stream.epoch == epoch &&
      thread.dump.stream.context_epoch == context_epoch)
    return thread.dump.stream.place;
  Ref ref = process.tables.live.find(space_of(Kind::kStream), reinterpret_cast<std::uint64_t>(stream),
                                     format::kNoDevice, process.dump);
  if (ref == 0) return current_place(process);
  const AllocationRecord& record = *process.dump.at<AllocationRecord>(ref);
  thread.dump.stream.handle = stream;
  thread.dump.stream.epoch = epoch;
  thread.dump.stream.context_epoch = context_epoch;
  thread.dump.stream.place = {record.context, record.device};
  return thread.dump.stream.place;
}

__attribute__((always_inline)) inline Place resolve(Process& process, const Where& where) {
  switch (where.by) {
    case Where::By::kDevice:
      return process.tables.contexts.of_device(where.device, process.dump);
    case Where::By::kStream: {
      // The stream decides, not the thread's current context. The default streams belong to the current context.
      std::uint64_t handle = reinterpret_cast<std::uint64_t>(where.stream);
      const bool is_default = handle == 0 || where.stream == CU_STREAM_LEGACY || where.stream == CU_STREAM_PER_THREAD;
      const Place place = is_default ? current_place(process) : place_of_stream(process, where.stream);
      if (CULPRIT_LIKELY(where.device == PoolPlaces::kUnknown || where.device == place.device)) return place;
      return process.tables.contexts.of_device(where.device, process.dump);
    }
    case Where::By::kCurrentContext:
      break;
  }
  return current_place(process);
}

// Larger sizes are compared with what can exist: a driver that accepted such an argument did something else with it,
// and a sum of such sizes would overflow.
constexpr int kUsualBits = 38;  // 256 GiB

// The most bytes that an allocation of this kind can have.
CULPRIT_COLD std::uint64_t possible_bytes(Process& process, Kind kind, std::uint64_t bytes, std::uint8_t ordinal) {
  constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 47;
  std::uint64_t most = kAddressSpace;
  const format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (is_on_device(kind) && kind != Kind::kManaged && device != nullptr && device->first.total_bytes != 0)
    most = device->first.total_bytes;
  return bytes < most ? bytes : most;
}

// `mapped_memory`: only for kIsMapping.
template <bool kOnlyHandle, bool kIsMapping = false>
__attribute__((always_inline)) inline void note(const Made& made, std::uint32_t space, Ref mapped_memory = 0) {
  if (CULPRIT_UNLIKELY(made.handle == 0)) return;
  Recording recording;
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr)) return;
  Place place = kOnlyHandle || kIsMapping ? current_place(*process) : resolve(*process, made.where);
  std::uint8_t flags = made.flags;
  std::uint64_t bytes = kOnlyHandle ? 0 : made.bytes;
  if (CULPRIT_UNLIKELY(bytes >> kUsualBits != 0)) bytes = possible_bytes(*process, made.kind, bytes, place.device);
  if (CULPRIT_UNLIKELY((process->mode.load(std::memory_order_relaxed) & kModesOfNoting) != 0)) {
    if (!note_mode(*process, place.device, is_on_device(made.kind) ? bytes : 0, &flags)) return;
    space = space_here(space);  // with another life than 0, kModeSeveralLives is set
  }
  Ref stack = current_stack(*process);
  std::uint64_t now = event_ns(*process);
  Ref label = thread_state.marks.label;
  if (CULPRIT_UNLIKELY(label == kUnresolvedLabel)) label = resolve_label(*process);
  auto fill = [&](AllocationRecord* record) {
    record->stack = stack;
    record->handle = made.handle;
    record->bytes = bytes;
    record->extra = made.extra;
    record->time_ns = now;
    record->thread = thread_state.index;
    record->context = place.context;
    record->evidence = 0;
    record->api = static_cast<std::uint16_t>(made.api);
    record->device = place.device;
    record->kind = made.kind;
    record->flags = flags;
    record->handle_references = 1;
    record->mappings = 0;
    if (kIsMapping) {
      record->physical = mapped_memory;
    } else {
      record->label = label;
    }
  };
  Ref ref = process->tables.live.make(made.handle, made.kind, space, place.device, fill, process->dump, own_records());
  if (CULPRIT_UNLIKELY(ref == 0)) {
    add_counter(process->dump.header()->allocations, 1);
    add_counter(process->dump.header()->dropped_allocations, 1);
    if (!is_memory(made.kind)) add_counter(process->dump.header()->objects, 1);
    return;
  }
  ++thread_state.sums.made;
  count_allocation(thread_state.dump.counters, stack, bytes, process->dump);
  if (kOnlyHandle || !is_memory(made.kind)) {
    count_object(thread_state.dump.counters, process->dump);
    if (made.kind == Kind::kStream) note_stream_made(made.handle);
    return;
  }
  probe_allocation(*process->dump.at<AllocationRecord>(ref), ref);
  if (CULPRIT_LIKELY(thread_state.paths.all != nullptr))
    thread_state.paths.all->made(ref, process->dump.at<AllocationRecord>(ref)->state, thread_state.paths.current);
  bool physical = (flags & format::kFlagNotPhysical) == 0;
  if (!is_on_device(made.kind)) return;
  bool new_device = thread_state.sums.live_device != place.device;
  if (!physical) bytes = 0;
  change_live_bytes(*process, place.device, made.kind, static_cast<std::int64_t>(bytes));
  if (CULPRIT_UNLIKELY(new_device)) begin_on_device(*process, place.device, bytes);
}

}  // namespace

void note_any_made(const Made& made, std::uint32_t space) { note<false>(made, space); }

void note_mapping_made(const Made& made, Ref physical) { note<false, true>(made, space_of(made.kind), physical); }

void note_handle_made(Api api, Kind kind, std::uint64_t handle, std::uint32_t space) {
  note<true>({api, kind, handle, 0, 0}, space);
}

void Ending::begin(std::uint8_t space, bool memory) {
  Recording recording;
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr)) return;
  // Release stacks are kept for memory only; streams, events and the like get one only when the release fails.
  if (memory) stack_ = current_stack(*process);
  record_ = process->tables.live.take(
      space, handle_, [&] { return current_place(*process).device; }, process->dump, own_records());
  if (CULPRIT_UNLIKELY(culprit_free_semaphore != 0)) tell_of_begun(*process);
}

// Memory of a graph is not freed by a call that only adds a node: release() in graph_launches.cpp and finish() tell of
// it.
void Ending::tell_of_begun(Process& process) const {
  if (record_ == 0) return;
  const auto& record = *process.dump.at<AllocationRecord>(record_);
  if (record.kind != Kind::kGraphMemory) tell_of_free(record, record_);
}

namespace {

// Retires the record of freed memory.
__attribute__((always_inline)) inline void retire(Process& process, Ref ref, Ref stack) {
  process.tables.live.retire(ref, process.dump, {stack, thread_state.index, false, true}, own_records());
  if (CULPRIT_LIKELY(thread_state.paths.all != nullptr)) thread_state.paths.all->ended(ref);
}

}  // namespace

void Ending::finish(CUresult status) {
  if (CULPRIT_UNLIKELY(handle_ == 0)) return;
  Recording recording;
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr) || CULPRIT_UNLIKELY(recording.is_first_of_thread())) return;
  format::Header* header = process->dump.header();
  if (CULPRIT_LIKELY(status == CUDA_SUCCESS) || status == CUDA_ERROR_DEINITIALIZED) {
    // Refused because the driver is shutting down: the program did free it.
    bool late = CULPRIT_UNLIKELY(status != CUDA_SUCCESS);
    if (late) add_counter(header->late_frees, 1);
    if (CULPRIT_UNLIKELY(record_ == 0)) {
      // While recording is off, frees of unrecorded allocations are frequent, and must not search every thread's young
      // records. Done here, because recording is switched off in a signal handler.
      const bool off = (process->mode.load(std::memory_order_relaxed) & kModeOff) != 0;
      if (off) process->tables.live.pause_young(process->dump);
      if (!late && !off) add_counter(header->unknown_frees, 1);
      return;
    }
    auto& record = *process->dump.at<AllocationRecord>(record_);
    count_free(thread_state.dump.counters, process->dump);
    if (!is_memory(record.kind)) {
      count_object_free(thread_state.dump.counters, process->dump);
      count_gone(*process, record.thread);
      if (record.kind == Kind::kStream) note_stream_gone(*process, record);
      process->tables.live.retire(record_, process->dump, {}, own_records());
      return;
    }
    if (CULPRIT_UNLIKELY((record.flags & (format::kFlagInGraph | format::kFlagShared)) != 0)) {
      if ((record.flags & format::kFlagShared) != 0) note_sharing_ended(*process, record_, stack_);
      if ((record.flags & format::kFlagInGraph) != 0 && !late && keep_for_launch(*process, record_, stack_)) return;
    }
    if (CULPRIT_UNLIKELY(record.kind == Kind::kGraphMemory)) probe_free(record, record_);
    count_end(*process, record);
    retire(*process, record_, stack_);
    return;
  }
  record_refusal(*process, status);
}

void note_late_free(Kind kind, std::uint64_t handle) {
  if (handle == 0) return;
  record_on_own_stack([&](Process& process) {
    Ref ref = process.tables.live.take(
        space_of(kind), handle, [&] { return current_place(process).device; }, process.dump, own_records());
    if (ref == 0) return;
    add_counter(process.dump.header()->late_frees, 1);
    const AllocationRecord& record = *process.dump.at<AllocationRecord>(ref);
    if ((record.flags & format::kFlagShared) != 0) note_sharing_ended(process, ref, 0);
    probe_free(record, ref);
    count_freed(process, record);
    retire(process, ref, 0);
  });
}

void Ending::record_refusal(Process& process, CUresult status) {
  on_own_stack([&] { record_refusal_here(process, status); });
}

void Ending::record_refusal_here(Process& process, CUresult status) {
  if (record_ == 0 && (process.mode.load(std::memory_order_relaxed) & kModeOff) != 0) return;
  if (stack_ == 0) stack_ = current_stack(process);
  format::ErrorRecord error = {};
  error.api = static_cast<std::uint16_t>(api_);
  error.code = static_cast<std::int32_t>(status);
  error.stack = stack_;
  error.handle = handle_;
  error.first_ns = error.last_ns = now_ns(process);
  error.thread = thread_state.index;
  error.free_thread = format::kNoIndex;
  error.device = format::kNoDevice;

  Ref concerned = record_ != 0 ? record_ : process.tables.live.find_containing(space_of(kind_), handle_, process.dump);
  AllocationRecord ended;
  EndedBy by;
  if (concerned != 0) {
    const AllocationRecord& record = *process.dump.at<AllocationRecord>(concerned);
    bool right = record_ != 0 && ends(kind_, record.kind);
    error.type = right ? ErrorType::kFailedFree : ErrorType::kMismatchedFree;
    if (right && (record.flags & format::kFlagInGraph) != 0 && (record.flags & format::kFlagNotPhysical) != 0 &&
        record.launched.times != 0) {
      error.type = ErrorType::kDoubleFree;
      error.free_stack = record.launched.stack;
    }
    error.kind = record.kind;
    error.allocation_stack = record.stack;
    error.allocation_handle = record.handle;
    error.bytes = record.bytes;
    error.device = record.device;
  } else if (process.tables.live.find_ended(space_of(kind_), handle_, &ended, &by, process.dump)) {
    // Memory that was released with its context was not freed by the program: this free is late, not double.
    error.type = by.teardown ? ErrorType::kFailedFree : ErrorType::kDoubleFree;
    error.kind = ended.kind;
    error.allocation_stack = ended.stack;
    error.free_stack = by.stack;
    error.free_thread = by.thread;
    error.allocation_handle = ended.handle;
    error.bytes = ended.bytes;
    error.device = ended.device;
  } else if (began_late()) {
    // It may have been made, and freed, while recording was off.
    add_counter(process.dump.header()->unknown_refusals, 1);
    return;
  } else {
    error.type = ErrorType::kInvalidFree;
    error.kind = Kind::kNone;
  }
  Ref stored = process.tables.errors.add(error, process.dump);
  if (stored == 0) add_counter(process.dump.header()->dropped_others, 1);
  if (record_ == 0) return;
  if (error.type == ErrorType::kFailedFree) {
    auto* record = process.dump.at<AllocationRecord>(record_);
    record->flags |= format::kFlagFreeFailed;
    if (stored != 0)
      process.tables.evidence.add(record, process.dump,
                                  [&](format::EvidenceRecord& evidence) { evidence.error = stored; });
  }
  put_back_ended(process, record_);
}

void put_back_ended(Process& process, Ref ref) {
  const auto& record = *process.dump.at<AllocationRecord>(ref);
  if (record.kind != Kind::kGraphMemory) probe_allocation(record, ref);
  process.tables.live.put_back(ref, process.dump);
}

void note_context_made(Api api, Kind kind, CUcontext handle, CUdevice device) {
  if (handle == nullptr) return;
  record_on_own_stack([&](Process& process) {
    std::uint64_t now = now_ns(process);
    Place place = process.tables.contexts.made(handle, kind, device, static_cast<std::uint16_t>(api),
                                               current_stack(process), thread_state.index, now, process.dump);
    if (place.context == format::kNoIndex) add_counter(process.dump.header()->dropped_others, 1);
  });
}

Teardown::Teardown(Api api, CUcontext handle) : api_(api) {
  if (handle == nullptr) return;
  record_on_own_stack([&](Process& process) {
    stack_ = current_stack(process);
    context_ = process.tables.contexts.take(handle);
  });
}

Teardown::Teardown(Api api, CUdevice device_of_primary) : api_(api) {
  record_on_own_stack([&](Process& process) {
    stack_ = current_stack(process);
    context_ = process.tables.contexts.take_primary(device_of_primary);
  });
}

void Teardown::finish(CUresult status) {
  if (context_ == format::kNoIndex) return;
  record_on_own_stack([&](Process& process) { finish_here(&process, status); });
}

void Teardown::finish_here(Process* process, CUresult status) {
  if (status != CUDA_SUCCESS) {
    process->tables.contexts.revive(context_);
    return;
  }
  std::uint64_t now = now_ns(*process);
  process->tables.contexts.destroyed(context_, static_cast<std::uint16_t>(api_), stack_, now, process->dump);
  meter_of(*process).note_context_ended(*process, context_);
  code_of(*process).forget_kernels();
  AnnouncedMemory announced(*process);
  const auto note_release = [&](const AllocationRecord& record, std::uint8_t device, std::uint64_t bytes, Ref name) {
    format::ReleaseRecord release = {};
    release.stack = record.stack;
    release.teardown_stack = stack_;
    release.api = record.api;
    release.teardown_api = static_cast<std::uint16_t>(api_);
    release.count = 1;
    release.bytes = bytes;
    release.first_ns = release.last_ns = record.time_ns;
    release.teardown_ns = now;
    release.thread = record.thread;
    release.context = context_;
    release.device = device;
    release.kind = record.kind;
    release.evidence = record.evidence;
    release.label = record.kind == Kind::kVmmMapping ? 0 : record.label;
    release.name = name;
    if (!process->tables.releases.add(release, process->dump)) add_counter(process->dump.header()->dropped_others, 1);
  };
  process->tables.live.sweep(process->dump, [&](AllocationRecord& record, Ref ref, EndedBy* by) {
    if (record.context != context_) return false;
    if (record.kind == Kind::kGraphExec) note_executable_without_context(record);
    if (!lives_in_context(record.kind)) return false;
    if ((record.flags & format::kFlagShared) != 0) process->tables.sharings.end(ref, now, stack_, process->dump);
    probe_free(record, ref);
    count_end(*process, record);
    if (!is_memory(record.kind)) return true;  // streams, events and modules may be released with their context
    *by = {stack_, thread_state.index, true, true};
    const Ref name = announced.take(record, [&](const AllocationRecord& region) {
      note_release(region, record.device, region.bytes, region.announced.name);
    });
    note_release(record, record.device, physical_bytes(record), name);
    return true;
  });
  announced.end_taken();
}

}  // namespace culprit
