// Places where tracers (bpftrace, perf, gdb, OpenTelemetry's profiler) listen to allocations and frees: USDT probes,
// which a note in libculprit.so describes (`readelf -n`).
//
//     culprit:alloc(ptr, size, weight, device, stack, kind)    the record has been made
//     culprit:free(ptr, size, weight, device, stack, kind)     before the driver is asked
//
// The first arguments are those of OpenTelemetry's contract for memory, `otel_memory:alloc(user, size, w)` and
// `otel_memory:free(ptr)`, where w says how many allocated bytes a sample stands for
// (https://github.com/open-telemetry/opentelemetry-ebpf-profiler, design-docs/00003-memory-profiling/README.md).
// Nothing is sampled here, so the weight is the size. The provider is our own, because ptr is no address of the host's
// heap.
//
//     ptr     the handle: an address or, of an array, the driver's number. Memory of cuMemCreate has no address, and
//             its handle can be released before it: its ptr is the number of its record
//     device  the number in the process, -1 = the host
//     stack   format::Ref of the stack that allocated, the same in both probes: `culprit stack` shows it
//     kind    its name in kinds.def, a text
//
// The probes fire once for memory with bytes of this process, and never for a view of memory (mappings, imports,
// reservations, regions). For a graph's memory they fire at a launch. When the driver refuses a free, culprit:alloc
// fires again. Were culprit:free to fire after the driver's answer, another thread's allocation at the same address
// could come first.
//
// A tracer counts its interest in a semaphore. In nearly all processes there is no tracer: then a probe costs a compare
// and a branch that is not taken. All functions here are thread-safe and never fail.
#pragma once

#include "interpose/base/placement.h"
#include "interpose/format/dump_format.h"

// The names are sys/sdt.h's: PROVIDER_PROBE_semaphore. Another process writes to them. They are not volatile, with
// which gcc would load the value in an instruction of its own: each call reads them once, or late without harm.
extern "C" {
extern CULPRIT_OWN unsigned short culprit_alloc_semaphore;
extern CULPRIT_OWN unsigned short culprit_free_semaphore;
}

namespace culprit {

// Fires the probe if `record`, the one at `ref`, has bytes.
CULPRIT_COLD void tell_of_allocation(const format::AllocationRecord& record, format::Ref ref);
CULPRIT_COLD void tell_of_free(const format::AllocationRecord& record, format::Ref ref);

__attribute__((always_inline)) inline void probe_allocation(const format::AllocationRecord& record, format::Ref ref) {
  if (CULPRIT_UNLIKELY(culprit_alloc_semaphore != 0)) tell_of_allocation(record, ref);
}
// Before the record is changed or retired.
__attribute__((always_inline)) inline void probe_free(const format::AllocationRecord& record, format::Ref ref) {
  if (CULPRIT_UNLIKELY(culprit_free_semaphore != 0)) tell_of_free(record, ref);
}

}  // namespace culprit
