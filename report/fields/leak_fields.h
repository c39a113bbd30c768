// The fields of a report's entries: groups, wrong frees, and calls that failed.
#pragma once

#include <string>

#include "report/causes/group_words.h"
#include "report/cuda/kinds.h"
#include "report/fields/field_list.h"
#include "report/fields/frame_fields.h"
#include "report/fields/shown_values.h"
#include "report/model/causes.h"
#include "report/model/failed_allocation.h"
#include "report/model/group.h"
#include "report/model/names.h"
#include "report/model/pool.h"

namespace culprit::report {

constexpr auto kLastKind = static_cast<format::Kind>(0xff);

// JSON has the fields that the file of the evidence in causes/ names.
template <typename Archive>
void fields(Archive& archive, Evidence* evidence) {
  archive.keep_named("type", &evidence->type, evidence_name, kLastEvidenceType);
  archive.keep_named("points_to", &evidence->points_to, cause_name, kLastCause);
  archive.kept("api", &evidence->api);
  archive.kept("code", &evidence->code);
  archive.kept("code_name", &evidence->code_name);
  archive.kept("handle", &evidence->handle);
  archive.kept("count", &evidence->count);
  archive.kept("time_ns", &evidence->time_ns);
  archive.kept("stack", &evidence->stack);
  archive.kept("exception", &evidence->exception);
  archive.kept("what", &evidence->what);
  archive.kept("caught", &evidence->caught);
  archive.kept("uncaught", &evidence->uncaught);
  archive.kept("forced", &evidence->forced);
  archive.kept("rethrown", &evidence->rethrown);
  archive.kept("ambiguous", &evidence->ambiguous);
  archive.kept("owner", &evidence->owner);
  archive.kept("injected", &evidence->injected);
  archive.kept("bytes", &evidence->bytes);
  archive.kept("variable", &evidence->variable);
  archive.kept("offset", &evidence->offset);
  archive.kept("middle", &evidence->middle);
  archive.kept("yields", &evidence->yields);
  archive.kept("path", &evidence->path);
  archive.kept("indirectly", &evidence->indirectly);
}

template <typename Archive>
void fields(Archive& archive, MarkShare* share) {
  archive.field("mark", &share->mark, "innermost ones that were open; null: none",
                [&] { return or_null(share->mark); });
  archive.field("range", &share->range, "", [&] { return or_null(share->range); });
  archive.field("bytes", &share->bytes, "allocated there");
  archive.field("count", &share->count, "");
}

template <typename Archive>
void fields(Archive& archive, NameShare* share) {
  archive.field("name", &share->name, "how many have it");
  archive.field("count", &share->count, "");
}

template <typename Archive>
void fields(Archive& archive, HeapUse* heap) {
  archive.field("name", &heap->name, "null: the regions were announced in no heap, and the allocation is the heap",
                [&] { return or_null(heap->name); });
  archive.field("count", &heap->count, "of the heaps with that name; their bytes");
  archive.field("bytes", &heap->bytes, "");
  archive.field("used_bytes", &heap->used_bytes, "in regions; between them");
  archive.shown("idle_bytes", "", [&] { return heap->bytes - heap->used_bytes; });
  archive.field("largest_hole", &heap->largest_hole, "bytes of the largest gap");
  archive.field("regions", &heap->regions, "how many");
}

template <typename Archive>
void fields(Archive& archive, Outside* outside) {
  archive.field("api", &outside->api, "of the allocation; its bytes; its source line");
  archive.field("bytes", &outside->bytes, "");
  archive.field("place", &outside->place, "");
}

// The writer of JSON appends the stack, because many groups share frames.
template <typename Archive>
void fields(Archive& archive, Group* group) {
  const bool has_baseline = group->comparison != Comparison::kNone;
  const bool is_region = group->kind == format::Kind::kRegion;
  const bool in_job = !group->shares.empty();
  archive.shown(
      "id",
      "16 hex digits, the same in every run and build of the program: see [Ids](#ids). Several entries may have one",
      [&] { return group->id; });
  archive.number("kind", &group->kind, kLastKind,
                 "`api` as the program wrote it (`cudaMalloc`), `driver_api` as the driver saw it (`cuMemAlloc_v2`)",
                 kind_name);
  archive.field("api", &group->api, "");
  archive.field("driver_api", &group->driver_api, "");
  archive.shown("bytes", "totals of the group. Bytes are physical: reservations, mappings, imports and regions have 0",
                [&] { return group->bytes; });
  archive.shown("count", "", [&] { return group->count; });
  archive.shown("device", "ordinal; null: no device, or several", [&] { return group->device; });
  archive.named("cause", &group->cause, cause_name, kLastCause, "see above");
  archive.field("pool", &group->pool, "only where it applies: name of the caching allocator",
                shown_if(group->pool != nullptr, [&] { return group->pool->name; }));
  archive.field("library", &group->library, "likewise: the library that allocated for itself",
                shown_if(!group->library.empty()));
  archive.shown("baseline",
                "only with `--baseline`: `state` (`new`, `grown`, `known`) of the id; `bytes`, `count` and `comment` "
                "that the baseline has for it (null: new)",
                shown_if(has_baseline, [&] { return ShownBaseline{group}; }));
  archive.field("evidence", &group->evidence, "see below", [&] { return ShownEvidence{group}; });
  archive.shown("threads", "threads that allocated", [&] { return group->threads; });
  archive.field({"thread_names", "threads"}, &group->thread_sums, "of a merged job instead",
                shown_if(!group->thread_sums.empty()));
  archive.field("marks", &group->marks, "only where a mark was open", shown_if(!group->marks.empty()));
  archive.field(
      "region_bytes", &group->region_bytes,
      "only of announced regions (kind `region`): the sum of their sizes, which is a part of the bytes of other groups",
      shown_if(is_region));
  archive.field({"inside", "outside"}, &group->outside,
                "likewise: the allocation that the first one lies in; not where that went with its context",
                shown_if(is_region && !group->outside.api.empty()));
  archive.field("names", &group->names, "only where the program gave names to allocations or regions of the group",
                shown_if(!group->names.empty()));
  archive.field("region_names", &group->region_names, "only where regions in the memory of the group have names",
                shown_if(!group->region_names.empty()));
  archive.field("heaps", &group->heaps, "only of memory with announced regions", shown_if(!group->heaps.empty()));
  archive.field("first_ns", &group->first_ns, "first and last allocation of the group");
  archive.field("last_ns", &group->last_ns, "");
  archive.kept("ended_bytes", &group->ended_bytes);
  archive.field("made", &group->made,
                "number of calls with this stack, number of those whose memory was freed, both in words (null: none "
                "was freed). Graph memory: of its launches",
                [&] { return group->made != 0 ? group->made : group->count; });
  archive.field("freed", &group->freed, "");
  archive.shown("history", "", [&] { return or_null(history_text(*group)); });
  archive.kept("mappings", &group->mappings);
  archive.kept("handle_references", &group->handle_references);
  archive.kept("stack", &group->stack);
  archive.shown("hint", "a sentence, or null", [&] { return or_null(hint_for(*group, archive.may_be_freed)); });
  archive.shown("handles", "the first few", [&] { return hex_texts(group->handles); });
  archive.field("devices", &group->devices,
                "only of a merged job: ordinals; the shares of the processes: `processes`, `min`, `median`, `max`, "
                "`amounts[]` (`bytes`, `count`, `processes[]`)",
                shown_if(in_job));
  archive.shown("spread", "", shown_if(in_job, [&] { return ShownSpread{group}; }));
  archive.kept("shares", &group->shares);
  archive.streamed("stack", "frames of the allocation");
  archive.streamed(
      "stack_merged",
      "true: this stack stands for several that found no room; true: the stack was deeper than was recorded");
  archive.streamed("stack_truncated", "");
}

template <typename Archive>
void fields(Archive& archive, ErrorGroup* error) {
  archive.number("type", &error->type, format::ErrorType::kFailedFree,
                 "`double-free`, `invalid-free`, `mismatched-free`, `failed-free`", error_type_name);
  archive.field("api", &error->api, "the refused call and the driver's answer");
  archive.field("driver_api", &error->driver_api, "");
  archive.field("code", &error->code, "");
  archive.field("code_name", &error->code_name, "");
  archive.number("kind", &error->kind, kLastKind, "of the allocation concerned; null: not known",
                 [&] { return value_if(error->kind != format::Kind::kNone, kind_name(error->kind)); });
  archive.field("handle", &error->handle, "as it was passed", [&] { return hex_text(error->handle); });
  archive.field("allocation_handle", &error->allocation_handle, "of the allocation; null: not known",
                [&] { return value_if(error->allocation_handle != 0, hex_text(error->allocation_handle)); });
  archive.field("bytes", &error->bytes, "of the allocation");
  archive.field("count", &error->count, "number of such calls");
  archive.field("device", &error->device, "of the allocation; thread of the first call");
  archive.shown("thread", "", [&] { return error->thread; });
  archive.field("first_ns", &error->first_ns, "first and last call");
  archive.field("last_ns", &error->last_ns, "");
  archive.field("stack", &error->stack, "of the refused call, of the allocation");
  archive.field("allocation_stack", &error->allocation_stack, "");
  archive.field("free_stack", &error->free_stack, "of the earlier free (`free_thread` only where there was one)");
  archive.shown("free_thread", "", shown_if(error->free_thread.has_value(), [&] { return error->free_thread; }));
}

template <typename Archive>
void fields(Archive& archive, FailedAllocation* failed) {
  archive.field("api", &failed->api, "the call and the driver's answer");
  archive.field("driver_api", &failed->driver_api, "");
  archive.field("code", &failed->code, "");
  archive.field("code_name", &failed->code_name, "");
  archive.shown("reason", "the code in words", [&] { return failure_reason(*failed); });
  archive.field("injected", &failed->injected, "true: `CULPRIT_FAIL` made it fail");
  archive.field("count", &failed->count, "number of such calls");
  archive.field("bytes", &failed->bytes,
                "asked for by the first of them; 0: not known, of a call that allocates nothing for the program");
  archive.field("first_ns", &failed->first_ns, "first and last call");
  archive.field("last_ns", &failed->last_ns, "");
  archive.field("stack", &failed->stack, "of the first of them");
}

}  // namespace culprit::report
