#include "interpose/process/attach_state.h"

#include <unistd.h>

#include <atomic>
#include <cstring>

#include "interpose/base/text_writer.h"

namespace culprit {
namespace {

std::atomic<int> attached_pid;  // 0 = not attached
format::AttachRequest chosen;

}  // namespace

bool attached_here() {
  int pid = attached_pid.load(std::memory_order_relaxed);
  return pid != 0 && pid == static_cast<int>(getpid());
}

void set_attached(const format::AttachRequest& request) {
  std::memcpy(&chosen, &request, sizeof(chosen));
  attached_pid.store(static_cast<int>(getpid()));
}

void set_detached() { attached_pid.store(0); }

const format::AttachRequest& attach_request() { return chosen; }

format::Attached attached_how() {
  return chosen.backend == format::AttachBackend::kCupti ? format::Attached::kCupti : format::Attached::kRedirect;
}

void apply_attach_options(Options* options) {
  if (!attached_here()) return;
  copy_text(options->out, sizeof(options->out), chosen.out);
  if (chosen.depth >= 0) options->depth = chosen.depth;
  // An attached process must not get additional output on standard error.
  options->log_level = LogLevel::kOff;
  options->quiet = true;
}

}  // namespace culprit
