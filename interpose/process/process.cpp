#include "interpose/process/process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"
#include "interpose/process/attach_state.h"
#include "interpose/process/rooms_above.h"
#include "interpose/process/run_starts.h"
#include "interpose/system/os.h"
#include "interpose/system/own_memory.h"
#include "interpose/system/prepared.h"
#include "interpose/system/spin_lock.h"

namespace culprit {

Process* quick_process = nullptr;

namespace {

CULPRIT_AT_LOAD std::atomic<Process*> the_process;
bool wiped_on_fork = false;
std::atomic<bool> without_memory;  // there was no room for the recorder's first structures; inherited by fork children

std::atomic<std::uint64_t> lost_calls;  // not yet in a header

bool wants_recording() { return rooms_above.wants_recording != nullptr && rooms_above.wants_recording(); }

}  // namespace

// Of two racing threads either may make it.
Process* mapped_process() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process != nullptr) return process;
  int error = 0;
  void* memory = map_private(rooms_above.state_bytes, &error);
  if (memory == nullptr) return nullptr;
  bool wiped = os.advise(memory, Process::kWipedBytes, MADV_WIPEONFORK) == 0;
  Process* expected = nullptr;
  if (!the_process.compare_exchange_strong(expected, static_cast<Process*>(memory))) {
    unmap_private(memory, rooms_above.state_bytes);
    return expected;
  }
  wiped_on_fork = wiped;
  if (wiped) __atomic_store_n(&quick_process, static_cast<Process*>(memory), __ATOMIC_RELEASE);
  return static_cast<Process*>(memory);
}

// The limits may have room again later; records from the middle of a run would only mislead.
void give_up_without_memory() {
  if (the_process.load(std::memory_order_acquire) == nullptr && !without_memory.exchange(true)) tell_no_memory();
}

Process* known_process() { return the_process.load(std::memory_order_acquire); }

CULPRIT_LOADING Process* process_if_recording() {
  Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr || process->phase.load(std::memory_order_acquire) != Phase::kRecording) return nullptr;
  if (!wiped_on_fork && process->pid != static_cast<int>(getpid())) return nullptr;
  return process;
}

bool recording_failed() {
  const Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return without_memory.load(std::memory_order_relaxed);
  return process->phase.load(std::memory_order_acquire) == Phase::kFailed;
}

namespace {

// How long a thread waits for another one to start recording.
constexpr std::uint32_t kLongestStartUs = 5000000;
constexpr std::uint32_t kPollUs = 100;

// `called`: a hook was called. See begin_without_calls().
Process* begin_process(bool called) {
  ensure_prepared();
  if (loaded_late() && !attached_here()) return nullptr;
  if (the_process.load(std::memory_order_acquire) == nullptr && !wants_recording()) return nullptr;
  Process* process = without_memory.load(std::memory_order_relaxed) ? nullptr : mapped_process();
  if (process == nullptr) {
    give_up_without_memory();
    return nullptr;
  }
  // The kernel could not wipe the page in this fork child.
  if (!wiped_on_fork && process->pid != 0 && process->pid != static_cast<int>(getpid()))
    std::memset(static_cast<void*>(process), 0, rooms_above.state_bytes);
  for (std::uint32_t waited = 0;; waited += kPollUs) {
    Phase phase = process->phase.load(std::memory_order_acquire);
    if (phase == Phase::kRecording) return process;
    if (phase == Phase::kFailed || phase == Phase::kDetached || (phase == Phase::kNone && !wants_recording()))
      return nullptr;
    Phase expected = Phase::kNone;
    if (phase == Phase::kNone && process->phase.compare_exchange_strong(expected, Phase::kStarting)) {
      if (rooms_above.start(*process, called) == 0) {
        begin_recording(*process);
      } else {
        process->phase.store(Phase::kFailed, std::memory_order_release);
      }
    } else if (waited < kLongestStartUs) {
      sleep_microseconds(kPollUs);  // another thread is starting it: takes a millisecond, unless the disk is slow
    } else {
      count_lost_call();
      return nullptr;
    }
  }
}

}  // namespace

Process* recording_process() { return begin_process(true); }

void count_lost_call() {
  Process* process = process_if_recording();
  if (process != nullptr) {
    add_counter(process->dump.header()->handler_calls, 1);
  } else {
    lost_calls.fetch_add(1, std::memory_order_relaxed);
  }
}

Process* begin_without_calls() {
  Process* process = begin_process(false);
  if (process != nullptr) process->mode.fetch_or(kModeExiting);  // exit handlers registered from now on do nothing
  return process;
}

void begin_recording(Process& process) {
  add_counter(process.dump.header()->handler_calls, lost_calls.exchange(0));
  process.session.store(process.generation, std::memory_order_release);
  process.phase.store(Phase::kRecording, std::memory_order_release);
}

void drop_copy(Process& process) {
  if (!process.in_use) return;
  process.dump.close();
  auto* rest = reinterpret_cast<char*>(&process) + Process::kWipedBytes;
  std::memset(rest, 0, rooms_above.state_bytes - Process::kWipedBytes);
}

// The phase stays, which tells concurrent hooks that recording is off. `in_use` comes last: a child that is forked
// meanwhile then knows that its copy is not clear.
void clear_process(Process& process) {
  auto* bytes = reinterpret_cast<char*>(&process);
  std::memset(bytes + sizeof(process.phase), 0, Process::kWipedBytes - sizeof(process.phase));
  auto* behind = reinterpret_cast<char*>(&process.in_use) + sizeof(process.in_use);
  std::memset(behind, 0, static_cast<std::size_t>(bytes + rooms_above.state_bytes - behind));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  __atomic_store_n(&process.in_use, false, __ATOMIC_RELEASE);
}

bool may_record() {
  if (loaded_late() && !attached_here()) return false;
  const Process* process = the_process.load(std::memory_order_acquire);
  if (process == nullptr) return !without_memory.load(std::memory_order_relaxed) && wants_recording();
  switch (process->phase.load(std::memory_order_acquire)) {
    case Phase::kFailed:
    case Phase::kDetached:
      return false;
    case Phase::kNone:
      return wants_recording();
    default:
      return true;
  }
}

}  // namespace culprit
