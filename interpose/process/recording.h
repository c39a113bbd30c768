// The sections in which a thread works on the tracker's state.
#pragma once

#include <cstdint>

#include "interpose/base/assertion.h"
#include "interpose/base/placement.h"
#include "interpose/process/process.h"
#include "interpose/process/thread_memory.h"
#include "interpose/process/thread_state.h"
#include "interpose/system/own_stack.h"

namespace culprit {

// Recording stopped early (full disk), or the dump reached its limit: writes a warning, once each. Cheap in the usual
// case.
CULPRIT_COLD void warn_if_stopped(Process& process);

// A section of the tracker's own work. `process()` is nullptr when nothing is to be recorded: recording is off, or this
// is a signal handler that interrupted another section. Keeps errno.
//
// kQuick is for code that only loads and stores, which changes no errno and fills no dump: `process()` is also nullptr
// where kFull would have to do more than test two words; otherwise this thread has `memory`, `paths` and `counters`.
class Recording {
 public:
  enum class Kind : std::uint8_t { kFull, kQuick };
  __attribute__((always_inline)) explicit Recording(Kind kind = Kind::kFull)
      : process_(nullptr), saved_errno_(0), kind_(kind) {
    if (CULPRIT_UNLIKELY(thread_state.in_tracker)) {
      if (kind == Kind::kFull) count_lost_call();
      return;
    }
    Process* process = process_at_hand();
    if (CULPRIT_LIKELY(process != nullptr)) {
      if (kind == Kind::kFull) saved_errno_ = *thread_state.error_number;
      thread_state.in_tracker = true;
      process_ = process;
    } else if (kind == Kind::kFull) {
      // The address of this object is not passed: it then stays in registers, which halves its cost.
      int saved = 0;
      bool first = false;
      process_ = begin(&saved, &first);
      saved_errno_ = saved;
      first_of_thread_ = first;
    }
  }
  __attribute__((always_inline)) ~Recording() {
    if (CULPRIT_UNLIKELY(process_ == nullptr)) return;
    CULPRIT_ASSERT(holds_no_spin_lock());  // the program goes on, or its call reaches the driver
    thread_state.in_tracker = false;
    if (kind_ == Kind::kQuick) return;
    if (CULPRIT_UNLIKELY(process_->dump.has_news())) warn_if_stopped(*process_);
    *thread_state.error_number = saved_errno_;
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  Process* process() const { return process_; }
  // Whether the thread just registered with this process: any records that it knows from before belong to a fork
  // parent.
  bool is_first_of_thread() const { return first_of_thread_; }

 private:
  CULPRIT_COLD static Process* begin(int* saved_errno, bool* first_of_thread);

  Process* process_;
  int saved_errno_;
  Kind kind_;
  bool first_of_thread_ = false;
};

// Calls work(process) inside a Recording, on the tracker's own stack: for rare work.
template <typename Work>
void record_on_own_stack(Work work) {
  on_own_stack([&] {
    Recording recording;
    if (Process* process = recording.process()) work(*process);
  });
}

// After a jump out of the outermost hook: repairs the calling thread's state and the shard that it may have locked, and
// counts the hook as left. On the tracker's own stack only.
void repair_left_hook();

// Frees the private data of a thread, known or calling, that no longer uses it.
void release_thread(ThreadState* state);

// The calling thread's own records, nullptr = it has none.
inline ThreadRecords* own_records() {
  return CULPRIT_UNLIKELY(thread_state.memory == nullptr) ? nullptr : &thread_state.memory->records;
}

}  // namespace culprit
