#include "interpose/events/probes.h"

#include <cstdint>

#include "interpose/format/live_share.h"

#define _SDT_HAS_SEMAPHORES 1  // NOLINT(readability-identifier-naming): a switch of the header
#include <sys/sdt.h>           // systemtap's, in the public domain

// Tracers look for semaphores in this section.
#define CULPRIT_SEMAPHORE __attribute__((section(".probes")))
extern "C" {
unsigned short culprit_alloc_semaphore CULPRIT_SEMAPHORE = 0;
unsigned short culprit_free_semaphore CULPRIT_SEMAPHORE = 0;
}

namespace culprit {

using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

struct Told {
  std::uint64_t handle;
  std::uint64_t bytes;
  std::int32_t device;
  std::uint32_t stack;
  const char* kind;
};

// Texts, not pointers: loading the library would relocate those in every process.
struct Names {
  char of[64][20];
};
constexpr Names make_names() {
  Names names = {};
  for (const format::KindRow& row : format::kinds::kRows) {
    for (int i = 0; row.name[i] != 0; ++i) names.of[static_cast<unsigned>(row.kind)][i] = row.name[i];
  }
  return names;
}
constexpr Names kNames = make_names();

Told told(const AllocationRecord& record, Ref ref) {
  const bool on_device = is_on_device(record.kind) && record.device != format::kNoDevice;
  return {record.kind == Kind::kVmmPhysical ? ref : record.handle, record.bytes, on_device ? record.device : -1,
          record.stack, kNames.of[static_cast<unsigned>(record.kind) & 63]};
}

}  // namespace

void tell_of_allocation(const AllocationRecord& record, Ref ref) {
  if (!counts_at_mark(record) || record.bytes == 0) return;
  const Told now = told(record, ref);
  STAP_PROBE6(culprit, alloc, now.handle, now.bytes, now.bytes, now.device, now.stack, now.kind);
}

void tell_of_free(const AllocationRecord& record, Ref ref) {
  if (!counts_at_mark(record) || record.bytes == 0) return;
  const Told now = told(record, ref);
  STAP_PROBE6(culprit, free, now.handle, now.bytes, now.bytes, now.device, now.stack, now.kind);
}

}  // namespace culprit
