// The short way of stream-ordered memory that is allocated and freed again by the same thread, the commonest pair of
// calls: the general one (events.cpp) without the cases that such a pair has not, and without a switch of stacks or a
// system call, and without a lock where the size is small. Each function finds out first whether it can go to the end,
// and changes nothing if it cannot.
#include "interpose/call_stack/current_stack.h"
#include "interpose/events/events.h"
#include "interpose/events/probes.h"
#include "interpose/metering/live_bytes.h"
#include "interpose/owners/thread_paths.h"
#include "interpose/process/recording.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

// The calling thread's stack as its memo has it; `*ref` is 0 where no stacks are recorded. False: the general way finds
// it.
__attribute__((always_inline)) inline bool stack_at_hand(const Process& process, Ref* ref) {
  ThreadState& thread = thread_state;
  const std::uint32_t mode = process.mode.load(std::memory_order_acquire);
  *ref = 0;
  if (CULPRIT_UNLIKELY(mode != 0)) {
    thread.paths.current = 0;
    return mode == kModeNoStacks;
  }
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread.outermost_hook);
  *ref = thread.memory->stacks.look_up(frame, module_generation(), &thread.paths.current);
  return CULPRIT_LIKELY(*ref != 0);
}

// The place of memory that is allocated on this stream, if the thread knows it.
__attribute__((always_inline)) inline bool place_at_hand(const Process& process, CUstream stream, Place* place) {
  const DumpPart& known = thread_state.dump;
  const std::uint32_t epoch = process.tables.contexts.epoch();
  if (CULPRIT_LIKELY(known.stream.handle == stream) && known.stream.context_epoch == epoch &&
      known.stream.epoch == process.hooks.stream_epoch.load(std::memory_order_acquire)) {
    *place = known.stream.place;
    return true;
  }
  *place = known.context.place;
  const bool is_default = stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD;
  return is_default && known.context.epoch == epoch;
}

// A thread holds small changes of its device's live bytes back (change_live_bytes()), and adds large ones at once. Each
// size has functions of its own, because those for small ones then call no others.
//
// The constructor finds out whether the change is at hand; make() makes it. `now()`: event_ns().
template <bool large>
struct LiveChange;

template <>
struct LiveChange<false> {
  static constexpr bool overflows(std::uint64_t) { return false; }  // the caller passes kHeldBackBytes at most
  __attribute__((always_inline)) LiveChange(Process&, std::uint8_t ordinal, std::int64_t bytes)
      : change(bytes),
        at_hand(thread_state.sums.live_device == ordinal &&
                static_cast<std::uint64_t>(thread_state.sums.live_delta + bytes) + kHeldBackBytes <=
                    thread_state.sums.window) {}
  template <typename Now>
  __attribute__((always_inline)) void make(Process&, Now) const {
    ++thread_state.sums.changes;
    thread_state.sums.live_delta += change;
  }
  const std::int64_t change;
  const bool at_hand;
};

template <>
struct LiveChange<true> {
  // No device has so much.
  static constexpr bool overflows(std::uint64_t bytes) { return bytes > 1ULL << 56; }
  __attribute__((always_inline)) LiveChange(Process& process, std::uint8_t ordinal, std::int64_t bytes)
      : change(bytes), device(device_at_hand(process, ordinal, bytes)), at_hand(device != nullptr) {}
  template <typename Now>
  __attribute__((always_inline)) void make(Process& process, Now now) const {
    ++thread_state.sums.changes;
    thread_state.sums.live_delta += change;
    flush_live_bytes_shortly(process, device, now());
  }
  const std::int64_t change;
  format::DeviceRecord* const device;
  const bool at_hand;
};

template <bool large>
__attribute__((always_inline)) inline bool note_memory_at_hand(Api api, std::uint64_t handle, std::uint64_t bytes,
                                                               CUstream stream) {
  Recording recording(Recording::Kind::kQuick);
  if (CULPRIT_UNLIKELY(recording.process() == nullptr)) return false;
  Process& process = *recording.process();
  ThreadState& thread = thread_state;
  Place place;
  Ref stack;
  if (CULPRIT_UNLIKELY(handle == 0) || CULPRIT_UNLIKELY(!place_at_hand(process, stream, &place)) ||
      CULPRIT_UNLIKELY(LiveChange<large>::overflows(bytes)))
    return false;
  const LiveChange<large> live(process, place.device, static_cast<std::int64_t>(bytes));
  if (CULPRIT_UNLIKELY(!live.at_hand) || CULPRIT_UNLIKELY(thread.marks.label == kUnresolvedLabel) ||
      CULPRIT_UNLIKELY(culprit_alloc_semaphore != 0) || CULPRIT_UNLIKELY(!stack_at_hand(process, &stack)) ||
      (CULPRIT_LIKELY(stack != 0) && CULPRIT_UNLIKELY(!thread.paths.all->has_room())))
    return false;
  const std::uint64_t now = event_ns(process);
  const Ref ref = process.tables.live.make_at_hand(
      handle, place.device,
      [&](AllocationRecord* record) {
        record->stack = stack;
        record->bytes = bytes;
        record->extra = 0;
        record->time_ns = now;
        record->thread = thread.index;
        record->context = place.context;
        record->evidence = 0;
        record->api = static_cast<std::uint16_t>(api);
        record->device = place.device;
        record->kind = Kind::kStreamOrdered;
        record->flags = 0;
        record->handle_references = 1;
        record->mappings = 0;
        record->label = thread.marks.label;
      },
      process.dump, &thread.memory->records);
  if (CULPRIT_UNLIKELY(ref == 0)) return false;
  ++thread.sums.made;
  count_allocation(*thread.dump.counters, stack, bytes, process.dump);
  ThreadPaths& paths = *thread.paths.all;
  if (CULPRIT_LIKELY(stack != 0)) paths.see(thread.paths.current);
  paths.made(ref, process.dump.at<AllocationRecord>(ref)->state, thread.paths.current);
  live.make(process, [&] { return now; });
  return true;
}

}  // namespace

bool note_memory_shortly(Api api, std::uint64_t handle, std::uint64_t bytes, CUstream stream) {
  return note_memory_at_hand<false>(api, handle, bytes, stream);
}

bool note_large_memory_shortly(Api api, std::uint64_t handle, std::uint64_t bytes, CUstream stream) {
  return note_memory_at_hand<true>(api, handle, bytes, stream);
}

bool Ending::begin_short() {
  Recording recording(Recording::Kind::kQuick);
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr) || CULPRIT_UNLIKELY(culprit_free_semaphore != 0)) return false;
  ThreadState& thread = thread_state;
  if (CULPRIT_UNLIKELY(handle_ == 0) || CULPRIT_UNLIKELY(!stack_at_hand(*process, &stack_))) return false;
  record_ = process->tables.live.take_young(handle_, process->dump, &thread.memory->records);
  if (CULPRIT_UNLIKELY(record_ == 0)) return false;
  if (stack_ != 0) thread.paths.all->see(thread.paths.current);
  return true;
}

template <bool large>
inline bool Ending::end_at_hand() {
  Recording recording(Recording::Kind::kQuick);
  Process* process = recording.process();
  if (CULPRIT_UNLIKELY(process == nullptr) || CULPRIT_UNLIKELY(record_ == 0)) return false;
  ThreadState& thread = thread_state;
  const AllocationRecord& record = *process->dump.at<AllocationRecord>(record_);
  const LiveChange<large> live(*process, record.device, -static_cast<std::int64_t>(record.bytes));
  ThreadRecords& own = thread.memory->records;
  if (CULPRIT_UNLIKELY(record.kind != Kind::kStreamOrdered) || CULPRIT_UNLIKELY(record.flags != 0) ||
      CULPRIT_UNLIKELY(record.thread != thread.index) || CULPRIT_UNLIKELY(!live.at_hand) ||
      CULPRIT_UNLIKELY(!LiveTable::retires_at_hand(own)))
    return false;
  count_free(*thread.dump.counters);
  ++thread.sums.ended;
  process->tables.live.retire(record_, process->dump, {stack_, thread.index, false, true}, &own);
  thread.paths.all->ended(record_);
  live.make(*process, [&] { return event_ns(*process); });
  return true;
}

bool Ending::end_short() { return end_at_hand<false>(); }
bool Ending::end_large() { return end_at_hand<true>(); }

}  // namespace culprit
