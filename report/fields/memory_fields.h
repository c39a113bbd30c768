// The fields of where memory is: its holders at a moment, the inside of caches, balances, contexts.
#pragma once

#include <string>
#include <vector>

#include "report/cuda/kinds.h"
#include "report/fields/field_list.h"
#include "report/fields/frame_fields.h"
#include "report/fields/leak_fields.h"
#include "report/fields/shown_values.h"
#include "report/model/balance.h"
#include "report/model/breakdown.h"
#include "report/model/cache_inside.h"
#include "report/model/keeper.h"
#include "report/model/overwritten.h"
#include "report/model/sharing.h"

namespace culprit::report {

template <typename Archive>
void fields(Archive& archive, format::MemoryReading* reading) {
  archive.field("time_ns", &reading->time_ns, "when cuMemGetInfo was asked, and its answers");
  archive.field({"free_bytes", "free"}, &reading->free_bytes, "");
  archive.field({"total_bytes", "total"}, &reading->total_bytes, "");
}

inline std::optional<format::MemoryReading> known_reading(const format::MemoryReading& reading) {
  return value_if(reading.total_bytes != 0, reading);
}

template <typename Archive>
void fields(Archive& archive, CacheInside::Place* place) {
  const bool is_known = !place->file.empty();
  archive.field("bytes", &place->bytes, "of live tensors; how many");
  archive.field("count", &place->count, "");
  archive.field("file", &place->file, "of the line that allocated them; null: not known",
                [&] { return or_null(place->file); });
  archive.field("line", &place->line, "", [&] { return value_if(is_known, place->line); });
  archive.field("function", &place->function, "", [&] { return value_if(is_known, place->function); });
  archive.field("held_by", &place->held_by, "in words; null: not known", [&] { return or_null(place->held_by); });
}

template <typename Archive>
void fields(Archive& archive, Keeper* keeper) {
  archive.named("kind", &keeper->kind, keeper_kind_name, KeeperKind::kNotKnown,
                "`variable`, `autograd`, `garbage`, `gradients`, `optimizer`, `parameters`, `library`, `cuda-graphs`, "
                "`native`, `pending`, `not-known`");
  archive.field("path", &keeper->path, "in words");
  archive.field("bytes", &keeper->bytes,
                "would be free if this keeper alone went; of all kinds but `pending` they add up to `live_bytes`");
  archive.field("count", &keeper->count, "blocks");
  archive.field("hint", &keeper->hint, "a sentence, or null", [&] { return or_null(keeper->hint); });
  archive.shown("suppressed", "true: a suppression hides it", [&] { return keeper->suppressed; });
  archive.field("id", &keeper->id, "the same in each run");
}

template <typename Archive>
void fields(Archive& archive, CacheInside::Idle* idle) {
  archive.named("why", &idle->why, idle_reason_name, IdleReason::kNotKnown,
                "`holes`, `private-pool`, `small-pool`, `pending`, `other-stream`, `not-known`");
  archive.field("bytes", &idle->bytes, "idle for that reason");
  archive.field({"largest_bytes", "largest"}, &idle->largest, "of the largest block; 0: not known");
}

template <typename Archive>
void fields(Archive& archive, CacheInside::Segment* segment) {
  archive.shown("address", "of the segment", [&] { return hex_text(segment->address); });
  archive.shown("bytes", "in all, of live tensors, beside them", [&] { return segment->bytes; });
  archive.shown("live_bytes", "", [&] { return segment->live_bytes; });
  archive.shown("idle_bytes", "", [&] { return segment->bytes - segment->live_bytes; });
}

template <typename Archive>
void fields(Archive& archive, CacheInside* inside) {
  archive.kept("pool", &inside->pool);
  archive.field("taken", &inside->taken, "`exit`, `snapshot`, `out-of-memory`");
  archive.field("live_bytes", &inside->live_bytes, "in use by live tensors; held by the cache beside them");
  archive.field("idle_bytes", &inside->idle_bytes, "");
  archive.field("uncounted_bytes", &inside->uncounted_bytes,
                "idle, or live without an object of Python: the pool (RMM, PyCUDA) does not count them");
  archive.shown("segments", "empty in a merged job", [&] { return inside->segments; });
  archive.field("largest", &inside->largest, "live tensors by line and holder, most bytes first");
  archive.field("kept", &inside->kept,
                "what keeps the live bytes, the largest first; empty where the graph of Python's objects was not read");
  archive.kept("idle", &inside->idle);
  archive.kept("hint", &inside->hint);
}

template <typename Archive>
void fields(Archive& archive, ChargedProcess* process) {
  archive.field("pid", &process->pid, "of the process");
  archive.field("name", &process->name, "null: not known", [&] { return or_null(process->name); });
  archive.kept("bytes_known", &process->bytes_known);
  archive.field("bytes", &process->bytes, "charged to it; null: not known",
                [&] { return value_if(process->bytes_known, process->bytes); });
}

// The list of the others stands beside the answer: `other_processes[]`.
template <typename Archive>
void fields(Archive& archive, GpuCharges* charges) {
  archive.field({"time_ns", "asked_ns"}, &charges->asked_ns, "of the question");
  archive.field("after_end", &charges->after_end, "true: the process had ended by then");
  archive.field("problem", &charges->problem, "why nothing is known, or null",
                [&] { return or_null(charges->problem); });
  archive.field({"process_bytes", "own_bytes"}, &charges->own_bytes, "charged to this process; null: not known",
                [&] { return value_if(charges->own_known, charges->own_bytes); });
  archive.kept("own_known", &charges->own_known);
  archive.field({"foreign_pids", "foreign_numbers"}, &charges->foreign_numbers,
                "true: numbers of another PID namespace, this process may be one of the others");
  archive.field("left_out", &charges->left_out, "others that are not in the list");
  archive.kept("others", &charges->others);
}

template <typename Archive>
void fields(Archive& archive, BreakdownEntry* entry) {
  archive.field("api", &entry->api, "of the first allocation");
  archive.number("kind", &entry->kind, kLastKind, "", kind_name);
  archive.field("bytes", &entry->bytes, "live allocations of this stack");
  archive.field("count", &entry->count, "");
  archive.kept("pool", &entry->pool);
  archive.field("stack", &entry->stack, "of the allocation");
}

// The moment that a breakdown is of.
template <typename Archive>
void moment_fields(Archive& archive, Breakdown* breakdown) {
  const bool failed = breakdown->out_of_memory;
  archive.field("process", &breakdown->process, "only of a merged job: index into `processes`",
                shown_if(archive.of_job));
  archive.field("device", &breakdown->device, "ordinal; null: not known");
  archive.field("time_ns", &breakdown->time_ns, "of the moment");
  archive.field("api", &breakdown->api, "only when memory ran out: the call that failed", shown_if(failed));
  archive.field("asked_bytes", &breakdown->asked_bytes,
                "likewise; 0: not known, because the call allocates nothing for the program", shown_if(failed));
  archive.field("times", &breakdown->times, "likewise: how often it failed with this stack", shown_if(failed));
  archive.field("stack", &breakdown->stack, "likewise: of the call", shown_if(failed));
  archive.field("memory", &breakdown->memory, "a reading of the whole device",
                [&] { return known_reading(breakdown->memory); });
  archive.field("live_bytes", &breakdown->live_bytes, "of this process");
}

// Those of `pictures[]`; `freed_at_end[]` and `out_of_memory[]` show other parts of it.
template <typename Archive>
void fields(Archive& archive, Breakdown* breakdown) {
  archive.kept("out_of_memory", &breakdown->out_of_memory);
  moment_fields(archive, breakdown);
  archive.shown("reason", "`peak`, `out-of-memory`",
                [&] { return breakdown->out_of_memory ? "out-of-memory" : "peak"; });
  archive.field({"live_allocations", "live_count"}, &breakdown->live_count, "of this process");
  archive.field({"stacks", "entries"}, &breakdown->entries, "its holders, most bytes first");
  archive.object("others", [&](auto& others) {
    others.field({"bytes", "other_bytes"}, &breakdown->other_bytes, "of the stacks that are not in the list");
    others.field({"count", "other_count"}, &breakdown->other_count, "");
    others.field({"stacks", "other_stacks"}, &breakdown->other_stacks, "");
  });
  archive.kept("caches", &breakdown->caches);
  archive.kept("charges", &breakdown->charges);
}

template <typename Archive>
void fields(Archive& archive, BalanceItem* item) {
  archive.named("what", &item->what, balance_name, kLastBalancePart, "see below");
  archive.field("bytes", &item->bytes, "only those of the rest can be negative");
}

template <typename Archive>
void fields(Archive& archive, ExecutableUse* use) {
  archive.kept("known", &use->known);
  archive.field("live", &use->live, "executables");
  archive.field({"in_use_at_least_bytes", "at_least"}, &use->at_least, "see below");
  archive.field({"in_use_at_most_bytes", "at_most"}, &use->at_most, "");
}

inline std::vector<std::string> names_of_parts(const std::vector<BalanceItem>& items) {
  std::vector<std::string> names;
  names.reserve(items.size());
  for (const BalanceItem& item : items) names.emplace_back(balance_name(item.what));
  return names;
}

// In JSON they stand among those of the balance.
template <typename Archive>
void fields(Archive& archive, DeviceShare* share) {
  archive.kept("recorded", &share->recorded);
  archive.keep_number("problem", &share->problem, format::kLastGpuProblem);
  archive.kept("own", &share->own);
  archive.kept("processes", &share->processes);
  archive.kept("largest", &share->largest);
  archive.kept("not_attributed", &share->not_attributed);
}

template <typename Archive>
void fields(Archive& archive, Balance* balance) {
  const DeviceShare& share = balance->share;
  const bool is_known = share.is_known();
  archive.field("process", &balance->process, "only of a merged job: index into `processes`", shown_if(archive.of_job));
  archive.field("device", &balance->device, "ordinal");
  archive.number("moment", &balance->moment, format::Moment::kExit, "`exit`, `out-of-memory`, `peak`; its time",
                 moment_name);
  archive.field("time_ns", &balance->time_ns, "");
  archive.field({"in_use_bytes", "in_use"}, &balance->in_use, "by cuMemGetInfo");
  archive.field({"total_bytes", "total"}, &balance->total, "");
  archive.field("others_included", &balance->others_included, "true: `in_use_bytes` has what other processes use, too");
  archive.kept("contexts_at_most", &balance->contexts_at_most);
  archive.kept("share", &balance->share);
  archive.shown("process_bytes",
                "NVML's figure of the process, as `culprit run` got it at that moment; null: not known",
                [&] { return value_if(is_known, share.own); });
  archive.shown("problem", "why it is not known, or null",
                [&] { return or_null(share.recorded ? problem_words(share.problem) : ""); });
  archive.shown("other_processes", "the three largest; null: not known",
                [&] { return value_if(is_known, share.largest); });
  archive.shown("other_processes_count", "how many there are; null: not known",
                [&] { return value_if(is_known, share.processes); });
  archive.field("not_known", &balance->not_known,
                "the `what` of parts that cannot be told from other processes' memory: their bytes are in the rest",
                [&] { return names_of_parts(balance->not_known); });
  archive.field(
      "unproven", &balance->unproven,
      "the `what` of parts that one reading of the whole GPU told, without NVML's figure: what other processes "
      "took or gave back meanwhile is in them",
      [&] { return names_of_parts(balance->unproven); });
  archive.shown("calls_not_attributed", "calls whose growth is not known for that reason",
                [&] { return share.not_attributed; });
  archive.field({"managed_bytes", "managed"}, &balance->managed,
                "live managed memory: the part of it that is on the device is in the rest");
  archive.field({"calls_not_measured", "unmeasured"}, &balance->unmeasured, "calls whose growth is not known");
  archive.object("limits", [&](auto& limits) {
    limits.field({"stack", "stack_limit"}, &balance->stack_limit,
                 "bytes that the driver holds for each purpose; 0: not known");
    limits.field({"printf_fifo", "printf_limit"}, &balance->printf_limit, "");
    limits.field({"heap", "heap_limit"}, &balance->heap_limit, "");
    limits.field("threads", &balance->threads, "that the device can run at a time");
  });
  archive.kept("executables", &balance->executables);
  archive.field("items", &balance->items,
                "largest first, the rest last; they add up to `in_use_bytes`. That of `graph-executables` also has "
                "`live`, `in_use_at_least_bytes` and `in_use_at_most_bytes`",
                [&] { return ShownItems{balance}; });
}

template <typename Archive>
void fields(Archive& archive, CallCharge* charge) {
  const bool has_counts = charge->made != 0;
  archive.field("process", &charge->process, "only of a merged job: index into `processes`", shown_if(archive.of_job));
  archive.field("device", &charge->device, "ordinal");
  archive.named("what", &charge->what, balance_name, kLastBalancePart, "as in `items[]` of a balance");
  archive.field("api", &charge->api, "the call");
  archive.field("bytes", &charge->bytes, "negative: given back");
  archive.field("count", &charge->count, "of calls that took memory");
  archive.kept("first_ns", &charge->first_ns);
  archive.kept("last_ns", &charge->last_ns);
  archive.field("ended", &charge->ended, "true: its context ended");
  archive.field("beside_others", &charge->beside_others,
                "true: other processes may have changed `bytes`; a balance has the part in `not_known`");
  archive.field("made", &charge->made,
                "only of executable graphs, by all calls with this stack, also those that took nothing: how many were "
                "made, are live, and were live at once at most",
                shown_if(has_counts));
  archive.field("live", &charge->live, "", shown_if(has_counts));
  archive.field("most_live", &charge->most_live, "", shown_if(has_counts));
  archive.field("growing", &charge->growing,
                "likewise: the program makes ever more of them at this line and keeps them, see below",
                shown_if(has_counts));
  archive.field("stack", &charge->stack, "of the calls");
}

template <typename Archive>
void fields(Archive& archive, ContextInfo* context) {
  archive.field("process", &context->process, "only of a merged job: index into `processes`", shown_if(archive.of_job));
  archive.field("device", &context->device, "ordinal");
  archive.number("kind", &context->kind, kLastKind, "see above; the call that made it", kind_name);
  archive.field("api", &context->api, "");
  archive.field("bytes", &context->bytes, "that it took; null: not known",
                [&] { return value_if(context->bytes != 0, context->bytes); });
  archive.field("others_included", &context->others_included,
                "true: `bytes` is of the process's first one on the device, with what other processes had there, or "
                "with what the process's own calls took that no reading measured");
  archive.field("beside_others", &context->beside_others,
                "true: `bytes` is not known, because other processes used the device");
  archive.field("created_ns", &context->created_ns, "when it was made");
  archive.field("ended", &context->ended, "true: it was destroyed");
  archive.field("stray", &context->stray,
                "true: the process's work is elsewhere: it has nothing else on the device, or leftovers of one stretch "
                "of work, 8 MiB of allocations at most, after which all its work was on other devices");
  archive.shown("stray_kind", "only of a stray one: `empty`, `leftovers`",
                shown_if(context->stray, [&] { return context->leftover_bytes == 0 ? "empty" : "leftovers"; }));
  archive.field("leftover_bytes", &context->leftover_bytes,
                "likewise: allocations, code, streams and the like on the device", shown_if(context->stray));
  archive.field("allocates_on", &context->allocates_on, "likewise: the devices that the process uses",
                shown_if(context->stray));
  archive.shown("thread", "that made it; missing: not known",
                shown_if(context->thread.has_value(), [&] { return context->thread; }));
  archive.field("stack", &context->stack, "of its making");
}

template <typename Archive>
void fields(Archive& archive, Overwritten* one) {
  archive.field("process", &one->process, "only of a merged job: index into `processes`", shown_if(archive.of_job));
  archive.named("place", &one->place, overwritten_place_name, OverwrittenPlace::kInBlock,
                "`variable`: the variable or a member of it, which was assigned; `member`: of an object in the heap, "
                "which may have been replaced; `value`: of a key, whose entry may have been erased; `local`: of a "
                "function that ran; `block`: of a block in it, which may have been left and entered again");
  archive.field("variable", &one->variable, "`g_engine->buffer`");
  archive.field("function", &one->function, "only of `local` and `block`: that has the variable",
                shown_if(!one->function.empty()));
  archive.field("module", &one->module, "of the variable: a path");
  archive.field("api", &one->api, "the call that made the allocations");
  archive.field("count", &one->count, "of the lost allocations");
  archive.field("bytes", &one->bytes, "");
  archive.field("device", &one->device, "ordinal; null: the host");
  archive.field("first_ns", &one->first_ns, "when the first of them was made");
  archive.field("last_ns", &one->last_ns, "when the allocation that the variable has was made, and where");
  archive.field("stack", &one->stack, "");
}

// JSON has them joined: `shared[]`.
template <typename Archive>
void fields(Archive& archive, Sharing* sharing) {
  archive.kept("process", &sharing->process);
  archive.keep_number("role", &sharing->role, format::SharingRole::kImport);
  archive.keep_number("type", &sharing->type, format::kLastSharingType);
  archive.keep_number("kind", &sharing->kind, kLastKind);
  archive.kept("key", &sharing->key);
  archive.kept("device", &sharing->device);
  archive.kept("gpu", &sharing->gpu);
  archive.kept("bytes", &sharing->bytes);
  archive.kept("count", &sharing->count);
  archive.kept("time_ns", &sharing->time_ns);
  archive.kept("ended_ns", &sharing->ended_ns);
  archive.kept("stack", &sharing->stack);
  archive.kept("export_stack", &sharing->export_stack);
  archive.kept("end_stack", &sharing->end_stack);
}

}  // namespace culprit::report
