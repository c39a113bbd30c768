// The functions that culprit.h and the Python package look up in the process. Their names and parameters are a
// contract: append only, and raise the version (CULPRIT_API_VERSION in culprit.h).
#include <errno.h>

#include "interpose/base/keep_errno.h"
#include "interpose/base/placement.h"
#include "interpose/control/marks.h"
#include "interpose/control/recording_switch.h"
#include "interpose/control/snapshot.h"
#include "interpose/entry/nvtx_text.h"
#include "interpose/events/regions.h"
#include "interpose/inside_python/python_view.h"
#include "interpose/process/hook_entry.h"
#include "interpose/process/known_threads.h"
#include "interpose/process/process.h"

namespace {
using namespace culprit;

// Calls work(process) on the tracker's own stack, where it cannot be interrupted. Does nothing before recording has
// started, or in a signal handler that interrupted the tracker.
template <typename Work>
void inspect(Work work) {
  Process* process = process_if_recording();
  if (process == nullptr || (is_in_hook() && thread_state.in_tracker)) return;
  on_own_stack([&] {
    VisitInTracker visit;
    work(*process);
  });
}

}  // namespace

CULPRIT_EXPORT int culprit_api_version() { return 3; }

CULPRIT_EXPORT void culprit_api_start() { switch_recording(true); }

CULPRIT_EXPORT void culprit_api_stop() { switch_recording(false); }

namespace {

int take_snapshot(const char* path, bool with_view) {
  KeepErrno keep;
  if (path == nullptr) return EINVAL;
  int error = ENODATA;
  inspect([&](Process& process) {
    error = write_snapshot(process, path);
    if (error == 0 && with_view) request_snapshot_view(process, path);
  });
  return error;
}

}  // namespace

CULPRIT_EXPORT int culprit_api_snapshot(const char* path) { return take_snapshot(path, true); }

// For the Python package, which writes the view itself.
CULPRIT_EXPORT int culprit_api_snapshot_only(const char* path) { return take_snapshot(path, false); }

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
  if (name != nullptr && name[0] != '\0') note_moment(name, false);
}

CULPRIT_EXPORT int culprit_api_mark_with_bytes(const char* name) {
  KeepErrno keep;
  if (name == nullptr || name[0] == '\0') return EINVAL;
  // A signal handler that interrupted the tracker names the moment only.
  if (process_if_recording() != nullptr && is_in_hook() && thread_state.in_tracker) {
    note_moment(name, false);
    add_counter(process_if_recording()->dump.header()->dropped_mark_sums, 1);
    return EAGAIN;
  }
  if (process_if_recording() == nullptr && recording_failed()) return ENODATA;
  int error = ENOMEM;
  on_own_stack([&] {
    const VisitInTracker visit;
    if (note_moment(name, true)) error = 0;
  });
  return error;
}

CULPRIT_EXPORT std::uint64_t culprit_api_now() {
  Process* process = process_if_recording();
  return process == nullptr ? 0 : now_ns(*process);
}

CULPRIT_EXPORT std::uint64_t culprit_api_live_bytes(std::uint64_t since, std::uint64_t* count) {
  std::uint64_t bytes = 0, found = 0;
  inspect([&](Process& process) {
    process.tables.live.sweep(process.dump, [&](const format::AllocationRecord& record, format::Ref, EndedBy*) {
      bool physical = (record.flags & format::kFlagNotPhysical) == 0 && record.bytes != 0;
      if (is_memory(record.kind) && physical && record.time_ns >= since) {
        bytes += record.bytes;
        ++found;
      }
      return false;
    });
  });
  if (count != nullptr) *count = found;
  return bytes;
}

// For the Python package: while recording is off, no check knows what is left behind.
CULPRIT_EXPORT int culprit_api_recording_is_off() { return recording_is_off() ? 1 : 0; }

CULPRIT_EXPORT std::uint64_t culprit_api_not_recorded() {
  Process* process = process_if_recording();
  if (process == nullptr) return recording_failed() ? ~std::uint64_t{0} : 0;
  const format::Header* header = process->dump.header();
  std::uint64_t events = process->dump.stopped() ? 1 : 0;  // the one that stopped it may be no event of the program
#define COUNTER_DROPPED(name, ...) events += __atomic_load_n(&header->name, __ATOMIC_RELAXED);
#include "interpose/format/counters.def"
  return events;
}

CULPRIT_EXPORT void culprit_api_region_add(const void* address, std::size_t bytes, const char* name) {
  CULPRIT_ANNOUNCEMENT
  const RegionName given = name == nullptr ? RegionName() : RegionName{name, bounded_length(name)};
  note_region_made(kCulpritRegion, {kWholeProcess, reinterpret_cast<std::uintptr_t>(address), bytes}, given);
}

CULPRIT_EXPORT void culprit_api_region_resize(const void* address, std::size_t bytes) {
  CULPRIT_ANNOUNCEMENT
  note_region_resized(reinterpret_cast<std::uintptr_t>(address), bytes);
}

CULPRIT_EXPORT void culprit_api_region_end(const void* address) {
  CULPRIT_ANNOUNCEMENT
  note_region_ended(kCulpritRegion, reinterpret_cast<std::uintptr_t>(address));
}
