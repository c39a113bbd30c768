#include "interpose/cuda_events.h"

#include "interpose/events.h"
#include "interpose/process.h"
#include "interpose/thread_paths.h"

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

// Recording for code that does nothing but load and store: there is no errno to keep, and nothing to say of a dump that
// can not grow. `process()` is nullptr where Recording has more to do than to look at two words; else this thread has
// `memory`, `paths` and `counters`.
class ShortRecording {
 public:
  __attribute__((always_inline)) ShortRecording() : process_(nullptr) {
    Process* process = __atomic_load_n(&quick_process, __ATOMIC_ACQUIRE);
    const bool usual = process != nullptr && !thread_state.in_tracker &&
                       process->session.load(std::memory_order_acquire) == thread_state.session;
    if (__builtin_expect(!usual, 0)) return;
    thread_state.in_tracker = true;
    process_ = process;
  }
  __attribute__((always_inline)) ~ShortRecording() {
    if (process_ != nullptr) thread_state.in_tracker = false;
  }
  ShortRecording(const ShortRecording&) = delete;
  ShortRecording& operator=(const ShortRecording&) = delete;
  Process* process() const { return process_; }

 private:
  Process* process_;
};

// False when nothing was done.
__attribute__((always_inline)) inline bool note_shortly(Api api, std::uint64_t handle) {
  ShortRecording recording;
  Process* process = recording.process();
  if (__builtin_expect(process == nullptr, 0)) return false;
  ThreadState& thread = thread_state;
  const bool usual = process->mode.load(std::memory_order_acquire) == 0 &&
                     thread.context_epoch == process->contexts.epoch() && thread.label != kUnresolvedLabel;
  if (__builtin_expect(!usual, 0)) return false;
  ThreadMemory& memory = *thread.memory;
  const auto* frame = reinterpret_cast<const std::uint64_t*>(thread.outermost_hook);
  Ref record = LiveTable::spare_event(memory.records, thread.context_place.device);
  if (__builtin_expect(record == 0 || frame == nullptr, 0)) return false;
  Ref stack = memory.stacks.look_up_last(frame, module_generation.load(std::memory_order_acquire), &thread.path);
  if (__builtin_expect(stack == 0, 0)) return false;
  thread.paths->see(thread.path);
  std::uint64_t now = event_ns(*process);
  process->live.make_event(
      handle, record,
      [&](AllocationRecord* fields) {
        fields->stack = stack;
        fields->time_ns = now;
        fields->context = thread.context_place.context;
        fields->evidence = 0;
        fields->api = static_cast<std::uint16_t>(api);
        fields->flags = 0;
        fields->label = thread.label;
      },
      process->dump, &memory.records);
  ++thread.made;
  count_allocation(thread.counters, stack, 0, process->dump);
  return true;
}

}  // namespace

void note_cuda_event_made(Api api, std::uint64_t handle) {
  if (__builtin_expect(handle == 0 || !note_shortly(api, handle), 0))
    note_handle_made(api, Kind::kEvent, handle, space_of(Kind::kEvent));
}

Ref end_cuda_event(std::uint64_t handle) {
  ShortRecording recording;
  Process* process = recording.process();
  if (__builtin_expect(process == nullptr, 0)) return 0;
  Ref record = process->live.end_event(handle, process->dump, &thread_state.memory->records);
  if (__builtin_expect(record == 0, 0)) return 0;
  count_free(thread_state.counters, process->dump);
  ++thread_state.ended;
  return record;
}

Ref take_back_cuda_event(Ref record, std::uint64_t handle) {
  ShortRecording recording;
  Process* process = recording.process();
  if (process == nullptr) return 0;
  if (!process->live.take_back_event(record, handle, process->dump, &thread_state.memory->records)) return 0;
  uncount_free(thread_state.counters);
  --thread_state.ended;
  return record;
}

}  // namespace culprit
