#include "interpose/control/recording_switch.h"

#include <link.h>
#include <signal.h>

#include <atomic>
#include <cstring>

#include "interpose/base/keep_errno.h"
#include "interpose/base/late_load.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/base/prepared.h"
#include "interpose/base/store_release.h"
#include "interpose/control/control_state.h"
#include "interpose/driver/driver.h"
#include "interpose/driver/relaxed_capture.h"
#include "interpose/format/signal_names.h"
#include "interpose/process/current_place.h"
#include "interpose/process/log.h"
#include "interpose/process/process.h"
#include "interpose/process/run_starts.h"
#include "interpose/process/variables.h"

namespace culprit {
namespace {

// All zeros = on. A fork child inherits the state.
std::atomic<int> switched_off;
std::atomic<int> late;  // recording was off once, or the program ran before it

// Whether to install our handler at the first sign of CUDA.
std::atomic<int> pending_signal;

Once start_decided;
std::atomic<bool> was_switched;  // by the signal or a call of the program's

void on_signal(int, siginfo_t* info, void*) {
  KeepErrno keep;
  bool on = switched_off.load(std::memory_order_relaxed) != 0;  // a plain kill toggles recording
  if (info != nullptr && info->si_code == SI_QUEUE) {
    if (info->si_value.sival_int == format::kSwitchOn) on = true;
    if (info->si_value.sival_int == format::kSwitchOff) on = false;
  }
  switch_recording(on);
}

// The current span, nullptr when none was written.
format::SpanRecord* current_span(Process& process) {
  format::Ref ref = switching_of(process).span.load(std::memory_order_acquire);
  return ref == 0 ? nullptr : process.dump.at<format::SpanRecord>(ref);
}

// Begins a span for recording that was switched on. The memory in use is read now, because a signal handler cannot do
// so; the allocation just made is subtracted.
void begin_span(Process& process, std::uint8_t device, std::uint64_t bytes) {
  // Recording may be switched without end: after this many spans the last one continues.
  constexpr std::uint32_t kMostSpans = 4096;
  if (switching_of(process).spans.fetch_add(1, std::memory_order_relaxed) >= kMostSpans) {
    switching_of(process).spans.store(kMostSpans, std::memory_order_relaxed);
    add_counter(process.dump.header()->dropped_others, 1);
    if (format::SpanRecord* last = current_span(process)) __atomic_store_n(&last->end_ns, 0, __ATOMIC_RELAXED);
    return;
  }
  format::Ref ref = process.dump.allocate_records(format::ChunkType::kSpans, 1, nullptr);
  if (ref == 0) {
    add_counter(process.dump.header()->dropped_others, 1);
    return;
  }
  auto* span = process.dump.at<format::SpanRecord>(ref);
  span->begin_ns = switching_of(process).switched_on_ns.load(std::memory_order_relaxed);
  span->device = format::kNoDevice;
  format::MemoryReading reading;
  if (!has_captures(process) && device != format::kNoDevice && current_place(process).device == device &&
      read_memory(now_ns(process), &reading)) {
    span->device = device;
    span->total_bytes = reading.total_bytes;
    std::uint64_t used = reading.total_bytes - reading.free_bytes;
    span->used_bytes = used > bytes ? used - bytes : 0;
  }
  __atomic_store_n(&span->state, 1, __ATOMIC_RELEASE);
  switching_of(process).span.store(ref, std::memory_order_release);
  // Recording was switched off meanwhile: the handler may have missed the span.
  if ((process.mode.load() & kModeOff) != 0) __atomic_store_n(&span->end_ns, now_ns(process), __ATOMIC_RELAXED);
}

// Installs our handler only for a signal with its default action. An existing handler belongs to the program. An
// ignored signal is ignored on purpose, by the program or by its parent.
void take_signal(int number) {
  struct sigaction present;
  if (sigaction(number, nullptr, &present) != 0) return;
  if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) {
    bool ignored = (present.sa_flags & SA_SIGINFO) == 0 && present.sa_handler == SIG_IGN;
    return warn_signal_taken(number, ignored);
  }
  struct sigaction action = {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  struct sigaction replaced = {};
  if (sigaction(number, &action, &replaced) != 0) return;
  // Another thread has just installed a handler of the program's.
  if ((replaced.sa_flags & SA_SIGINFO) != 0 || replaced.sa_handler != SIG_DFL) sigaction(number, &replaced, nullptr);
}

}  // namespace

void note_sign_of_cuda() {
  if (CULPRIT_LIKELY(pending_signal.load(std::memory_order_relaxed) == 0) || pending_signal.exchange(0) == 0) return;
  KeepErrno keep;
  on_own_stack([] {
    const Variables variables;
    const char* chosen = variables.value("CULPRIT_SIGNAL");
    int number = chosen == nullptr ? SIGUSR2 : parse_signal(chosen);
    if (number == 0) {
      number = SIGUSR2;
      warn_signal_refused(chosen, number);
    }
    take_signal(number);
  });
}

namespace {

bool starts_by_signal(const char* start) { return start != nullptr && strcasecmp(start, "signal") == 0; }

void wait_for_signal() {
  begin_late();
  switched_off.store(1, std::memory_order_release);
  pending_signal.store(1, std::memory_order_release);
}

// CULPRIT_START as it is at the first call, where that differs from the value at load.
void decide_start() {
  if (start_decided.is_done() || loaded_late()) return;
  start_decided.run([] {
    on_own_stack([] {
      const Variables variables;
      const bool by_signal = starts_by_signal(variables.value("CULPRIT_START"));
      if (by_signal == starts_by_signal(value_at_load("CULPRIT_START")) || was_switched.load()) return;
      if (by_signal) {
        wait_for_signal();
      } else {
        switched_off.store(0, std::memory_order_release);
      }
    });
  });
}

}  // namespace

bool recording_wanted() {
  decide_start();
  if (CULPRIT_LIKELY(switched_off.load(std::memory_order_acquire) == 0)) return true;
  note_sign_of_cuda();
  if (switched_off.load(std::memory_order_acquire) == 0) return true;
  if (process_if_recording() == nullptr) note_waiting();
  return false;
}

bool recording_is_off() { return switched_off.load(std::memory_order_acquire) != 0; }

void begin_late() { late.store(1, std::memory_order_release); }

bool began_late() { return late.load(std::memory_order_acquire) != 0; }

namespace {

// Reads memory of the current context's device; the span names the first device that is read.
void read_current_device(Process& process, format::SpanRecord* span) {
  format::MemoryReading reading;
  std::uint8_t ordinal = ask_current_place(process).device;
  format::DeviceRecord* device = process.tables.contexts.known_device(ordinal, process.dump);
  if (device == nullptr || !read_memory(now_ns(process), &reading)) return;
  if (device->first.total_bytes == 0) device->first = device->peak = reading;
  if (span->total_bytes != 0) return;
  span->device = ordinal;
  span->used_bytes = reading.total_bytes - reading.free_bytes;
  span->total_bytes = reading.total_bytes;
}

}  // namespace

void begin_span_at_attach(Process& process) {
  if (!driver_ready()) return;
  const DriverUse use;
  const RelaxedCapture relaxed;
  if (!relaxed.works()) return;
  format::SpanRecord found = {};
  read_current_device(process, &found);
  unsigned flags = 0;
  int active = 0;
  for (int ordinal = 0; ordinal < ContextTable::kMostDevices &&
                        driver().cuDevicePrimaryCtxGetState(ordinal, &flags, &active) == CUDA_SUCCESS;
       ++ordinal) {
    const RetainedPrimary primary(ordinal);
    const PushedContext pushed(primary.get());
    if (pushed.done()) read_current_device(process, &found);
  }
  thread_state.dump.context.forget();
  if (found.total_bytes == 0) return;
  format::Ref ref = process.dump.allocate_records(format::ChunkType::kSpans, 1, nullptr);
  if (ref == 0) return;
  auto* span = process.dump.at<format::SpanRecord>(ref);
  *span = found;
  span->begin_ns = now_ns(process);
  span->flags = format::kSpanReadAtBegin;
  __atomic_store_n(&span->state, 1, __ATOMIC_RELEASE);
  switching_of(process).span.store(ref, std::memory_order_release);
  process.mode.fetch_and(~static_cast<std::uint32_t>(kModeJustOn));
}

void switch_recording(bool on) {
  was_switched.store(true);
  if (!on) begin_late();
  if (switched_off.exchange(on ? 0 : 1) == (on ? 0 : 1)) return;
  Process* process = process_if_recording();
  if (process == nullptr) return;  // the next CUDA call starts recording if it is on
  format::Header* header = process->dump.header();
  std::uint64_t now = now_ns(*process);
  if (on) {
    switching_of(*process).switched_on_ns.store(now, std::memory_order_relaxed);
    if (!has_several_drivers()) process->tables.live.resume_young();
    process->mode.fetch_or(kModeJustOn);
    process->mode.fetch_and(~static_cast<std::uint32_t>(kModeOff));
  } else {
    process->mode.fetch_or(kModeOff);
    process->mode.fetch_and(~static_cast<std::uint32_t>(kModeJustOn));
    if (format::SpanRecord* span = current_span(*process)) __atomic_store_n(&span->end_ns, now, __ATOMIC_RELAXED);
  }
  header->last_switch_ns = now;
  store_release(&header->recording_state, on ? format::RecordingState::kOn : format::RecordingState::kOff);
}

CULPRIT_LOADING void prepare_recording_switch() {
  // Install no handler without the program's request.
  if (loaded_late() || !starts_by_signal(value_at_load("CULPRIT_START"))) return;
  wait_for_signal();
  if (cuda_is_loaded()) note_sign_of_cuda();
}

void begin_switched(Process& process) {
  if (late.load(std::memory_order_acquire) != 0) process.mode.fetch_or(kModeJustOn);
  if (recording_wanted()) return;
  // Recording was switched off while the dump was being created.
  process.mode.fetch_and(~std::uint32_t{kModeJustOn});
  process.mode.fetch_or(kModeOff);
  process.dump.header()->recording_state = format::RecordingState::kOff;
}

bool note_mode(Process& process, std::uint8_t device, std::uint64_t bytes, std::uint8_t* flags) {
  std::uint32_t mode = process.mode.load(std::memory_order_relaxed);
  if ((mode & kModeOff) != 0) return false;
  if ((mode & kModeJustOn) != 0 &&
      (process.mode.fetch_and(~static_cast<std::uint32_t>(kModeJustOn)) & kModeJustOn) != 0)
    on_own_stack([&] { begin_span(process, device, bytes); });
  if ((mode & kModeExiting) != 0) *flags |= format::kFlagExitPhase;
  return true;
}

}  // namespace culprit
