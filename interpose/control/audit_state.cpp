#include "interpose/control/audit_state.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/base/own_stack.h"
#include "interpose/base/placement.h"
#include "interpose/base/prepared.h"
#include "interpose/base/store_release.h"
#include "interpose/process/recording.h"
#include "interpose/process/rooms_above.h"
#include "interpose/process/variables.h"

namespace culprit {
namespace {

using format::AuditState;

Once asked;
bool is_asked = false;
std::atomic<int> audited_pid;  // 0 = the audit has not begun
std::atomic<AuditState> state_here;
std::atomic<std::int32_t> error_here;

// CUPTI's callbacks do not work in a fork child of a process that has used CUDA, and neither does CUDA.
AuditState state_of(int pid) {
  const int begun = audited_pid.load(std::memory_order_relaxed);
  if (begun == 0) return AuditState::kNotBegun;
  return begun == pid ? state_here.load(std::memory_order_relaxed) : AuditState::kForkParent;
}

}  // namespace

bool is_audit_asked() {
  asked.run([] {
    on_own_stack([] {
      const Variables variables;
      const char* value = variables.value("CULPRIT_AUDIT");
      is_asked = value != nullptr && std::strcmp(value, "0") != 0;
    });
  });
  return is_asked;
}

void begin_audit() {
  if (rooms_above.begin_audit == nullptr || !is_audit_asked()) return;
  int none = 0;
  if (audited_pid.compare_exchange_strong(none, static_cast<int>(getpid()))) rooms_above.begin_audit();
}

void set_audit_state(AuditState state, std::int32_t error) {
  error_here.store(error, std::memory_order_relaxed);
  state_here.store(state, std::memory_order_release);
  record_on_own_stack([](Process& process) { note_audit_state(process); });
}

AuditState audit_state() { return state_of(static_cast<int>(getpid())); }

void note_audit_state(Process& process) {
  if (!process.options.audit) return;
  format::Header* header = process.dump.header();
  const AuditState state = state_of(process.pid);
  header->audit_error = error_here.load(std::memory_order_relaxed);
  if (state == AuditState::kEnded) header->audit_end_ns = now_ns(process);
  store_release(&header->audit_state, state);
}

}  // namespace culprit
