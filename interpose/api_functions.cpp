// The functions that culprit.h and the Python package look up in the process. Their names and what they take are a
// contract: append only, and raise the version (CULPRIT_API_VERSION in culprit.h).
#include <errno.h>

#include "interpose/marks.h"
#include "interpose/process.h"
#include "interpose/recording_switch.h"
#include "interpose/snapshot.h"

#define CULPRIT_EXPORT extern "C" __attribute__((visibility("default")))

namespace {
using namespace culprit;

class KeepErrno {
 public:
  KeepErrno() : saved_(errno) {}
  ~KeepErrno() { errno = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int saved_;
};

// The process, as long as this lives: nullptr when nothing was recorded yet, and in a signal handler that interrupted
// the tracker. A signal handler that interrupts us finds the tracker busy, and so never waits for a lock that we hold.
class Inspection {
 public:
  Inspection() : process_(thread_state.in_tracker ? nullptr : process_if_recording()) {
    if (process_ != nullptr) thread_state.in_tracker = true;
  }
  ~Inspection() {
    if (process_ != nullptr) thread_state.in_tracker = false;
  }
  Inspection(const Inspection&) = delete;
  Inspection& operator=(const Inspection&) = delete;
  Process* process() const { return process_; }

 private:
  Process* process_;
};

}  // namespace

CULPRIT_EXPORT int culprit_api_version() { return 1; }

CULPRIT_EXPORT void culprit_api_start() { switch_recording(true); }

CULPRIT_EXPORT void culprit_api_stop() { switch_recording(false); }

CULPRIT_EXPORT int culprit_api_snapshot(const char* path) {
  KeepErrno keep;
  if (path == nullptr) return EINVAL;
  Inspection inspection;
  return inspection.process() == nullptr ? ENODATA : write_snapshot(*inspection.process(), path);
}

CULPRIT_EXPORT void culprit_api_mark_push(const char* name) {
  KeepErrno keep;
  open_mark(name == nullptr || name[0] == '\0' ? "(unnamed)" : name);
}

CULPRIT_EXPORT void culprit_api_mark_pop() {
  KeepErrno keep;
  close_mark();
}

CULPRIT_EXPORT void culprit_api_mark(const char* name) {
  KeepErrno keep;
  if (name != nullptr && name[0] != '\0') note_moment(name);
}

CULPRIT_EXPORT std::uint64_t culprit_api_now() {
  Process* process = process_if_recording();
  return process == nullptr ? 0 : now_ns(*process);
}

CULPRIT_EXPORT std::uint64_t culprit_api_live_bytes(std::uint64_t since, std::uint64_t* count) {
  std::uint64_t bytes = 0, found = 0;
  Inspection inspection;
  if (Process* process = inspection.process()) {
    process->live.sweep(process->dump, [&](const format::AllocationRecord& record, format::Ref, EndedBy*) {
      bool physical = (record.flags & format::kFlagNotPhysical) == 0 && record.bytes != 0;
      if (record.kind < format::Kind::kContext && physical && record.time_ns >= since) {
        bytes += record.bytes;
        ++found;
      }
      return false;
    });
  }
  if (count != nullptr) *count = found;
  return bytes;
}
