#include "interpose/attach/audit.h"

#include <cuda.h>

#include <atomic>
#include <cstring>

#include "interpose/attach/cupti.h"
#include "interpose/base/keep_errno.h"
#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/base/text_writer.h"
#include "interpose/call_stack/current_stack.h"
#include "interpose/control/audit_state.h"
#include "interpose/driver/audited.h"
#include "interpose/process/hook_entry.h"
#include "interpose/process/process.h"
#include "interpose/process/recording.h"
#include "interpose/process/variables.h"

namespace culprit {
namespace {

using format::AuditState;

// By CUPTI's number of the function.
const char* symbols[AuditTable::kMostIds];
bool has_row[AuditTable::kMostIds];
static_assert(kMostCuptiIds <= AuditTable::kMostIds);

// From CUDA 12.9 on, CUPTI has a second way to subscribe.
constexpr const char* kSubscribe[] = {"cuptiSubscribe", "cuptiSubscribe_v2"};
std::atomic<void*> real_subscribe[2];  // found by the program
constexpr int kNotInitialized = 15;    // CUPTI_ERROR_NOT_INITIALIZED

bool wants(std::uint32_t id, const char* symbol) {
  if (!is_audited(symbol)) return false;
  symbols[id] = symbol;
  has_row[id] = has_recording_row(symbol);
  return true;
}

void count(Process& process, const CuptiCall& call, bool recorded) {
  if ((process.mode.load(std::memory_order_relaxed) & kModeOff) != 0) return;
  AuditedCall counted = {};
  counted.id = call.id;
  counted.symbol = symbols[call.id];
  counted.recorded = recorded;
  if (!recorded) {
    counted.stack = current_stack(process);
    counted.thread = thread_state.index;
    counted.bytes = audited_bytes(counted.symbol, call.parameters);
    counted.time_ns = now_ns(process);
  }
  if (!process.tables.audit.add(counted, process.dump)) add_counter(process.dump.header()->dropped_others, 1);
}

void on_call(const CuptiCall& call) {
  if (call.begins || call.result == nullptr || *call.result != CUDA_SUCCESS || symbols[call.id] == nullptr) return;
  // Calls of the tracker itself.
  if (is_on_own_stack() || thread_state.in_tracker) return;
  KeepErrno keep;
  const auto* frame = static_cast<const char*>(__builtin_frame_address(0));
  // A hook that was left by a jump lies below this frame.
  const bool in_hook = thread_state.outermost_hook != nullptr && frame < thread_state.outermost_hook;
  HookScope scope(frame, thread_state.outermost_hook, !in_hook);
  record_on_own_stack([&](Process& process) { count(process, call, in_hook && has_row[call.id]); });
}

template <typename... Parameters>
int subscribe(int version, Parameters... parameters) {
  if (audit_state() == AuditState::kOn) {
    stop_listening(false);
    set_audit_state(AuditState::kEnded, 0);
  }
  void* found = real_subscribe[version].load(std::memory_order_acquire);
  if (found == nullptr) found = reinterpret_cast<void*>(cupti_function(kSubscribe[version]));
  if (found == nullptr) return kNotInitialized;
  return reinterpret_cast<int (*)(Parameters...)>(found)(parameters...);
}

}  // namespace
}  // namespace culprit

// Another tool of this process subscribes to CUPTI: the program's own profiler.
CULPRIT_EXPORT int cuptiSubscribe(void** subscriber, void* callback, void* user) {
  return culprit::subscribe(0, subscriber, callback, user);
}
CULPRIT_EXPORT int cuptiSubscribe_v2(void** subscriber, void* callback, void* user, void* parameters) {
  return culprit::subscribe(1, subscriber, callback, user, parameters);
}

namespace culprit {

void start_audit() {
  // For a program that has none loaded.
  static char chosen[Options::kPathBytes];  // the audit begins once
  on_own_stack([] {
    const Variables variables;
    const char* value = variables.value("CULPRIT_CUPTI");
    copy_text(chosen, sizeof(chosen), value != nullptr ? value : "");
  });
  const char* const given[] = {chosen, nullptr};
  constexpr const char* kUsual[] = {"libcupti.so.13",
                                    "libcupti.so.12",
                                    "libcupti.so",
                                    "/usr/local/cuda/lib64/libcupti.so",
                                    "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                    nullptr};
  std::int32_t error = 0;
  switch (listen_to_calls(chosen[0] != '\0' ? given : kUsual, wants, on_call, &error)) {
    case CuptiEnd::kDone:
      return set_audit_state(AuditState::kOn, 0);
    case CuptiEnd::kNone:
      return set_audit_state(AuditState::kNoCupti, 0);
    case CuptiEnd::kTaken:
      return set_audit_state(AuditState::kTaken, error);
    case CuptiEnd::kFailed:
      return set_audit_state(AuditState::kFailed, error);
  }
}

bool is_cupti_subscribe(const char* name) {
  return std::strcmp(name, kSubscribe[0]) == 0 || std::strcmp(name, kSubscribe[1]) == 0;
}

void* stand_in_for_subscribe(const char* name, void* found) {
  if (found == nullptr || !is_audit_asked()) return found;
  const bool second = std::strcmp(name, kSubscribe[1]) == 0;
  real_subscribe[second ? 1 : 0].store(found, std::memory_order_release);
  return second ? reinterpret_cast<void*>(&cuptiSubscribe_v2) : reinterpret_cast<void*>(&cuptiSubscribe);
}

}  // namespace culprit
