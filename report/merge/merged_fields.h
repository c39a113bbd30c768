// The fields of a merged report that are stored in a file. One list serves writing and reading, so the two cannot
// diverge. An archive is called as archive("name", &field). Enumerations of the dump (interpose/format/) are numbers,
// which never change: archive.number("name", &field, last). Those of report/ are names, because their numbers move when
// a row is added: archive.named("name", &field, name_of, last).
#pragma once

#include "report/dump/process_status.h"
#include "report/model/causes.h"
#include "report/model/report.h"
#include "report/symbols/module_state.h"

namespace culprit::report {

template <typename Archive>
void fields(Archive& archive, format::MemoryReading* reading) {
  archive("time_ns", &reading->time_ns);
  archive("free", &reading->free_bytes);
  archive("total", &reading->total_bytes);
}

template <typename Archive>
void fields(Archive& archive, DeviceInfo* device) {
  archive("ordinal", &device->ordinal);
  archive("uuid", &device->uuid);
  archive("name", &device->name);
  archive("mig", &device->mig);
  archive("first", &device->first);
  archive("peak", &device->peak);
  archive("exit", &device->exit);
  archive("live_bytes", &device->live_bytes);
  archive("peak_live_bytes", &device->peak_live_bytes);
  archive("pool_known", &device->pool_known);
  archive("pool_reserved", &device->pool_reserved);
  archive("pool_used", &device->pool_used);
}

template <typename Archive>
void fields(Archive& archive, JobProcess* process) {
  archive("dump", &process->dump_path);
  archive("pid", &process->pid);
  archive("host", &process->host);
  archive("rank", &process->rank);
  archive("job_size", &process->job_size);
  archive("start_realtime_ns", &process->start_realtime_ns);
  archive.named("ended", &process->ended, ended_name, Ended::kUnknown);
  archive("exit_status", &process->exit_status);
  archive("signal", &process->signal);
  archive("gone", &process->gone);
  archive("peak_live_bytes", &process->peak_live_bytes);
}

template <typename Archive>
void fields(Archive& archive, ProcessInfo* process) {
  archive("pid", &process->pid);
  archive("parent_pid", &process->parent_pid);
  archive("host", &process->host);
  archive("rank", &process->rank);
  archive("job_size", &process->job_size);
  archive("exe", &process->executable);
  archive("command", &process->command);
  archive("working_directory", &process->working_directory);
  archive("start_realtime_ns", &process->start_realtime_ns);
  archive("end_time_ns", &process->end_time_ns);
  archive.named("ended", &process->status.ended, ended_name, Ended::kUnknown);
  archive("exit_status", &process->status.exit_status);
  archive("gone", &process->status.gone);
  archive("libculprit_version", &process->tool_version);
  archive("driver_version", &process->driver_version);
}

// The counts that cannot be summed up from the lists.
template <typename Archive>
void fields(Archive& archive, Summary* summary) {
#define COUNTER_SUMMARY(name) archive(#name, &summary->name);
#define COUNTER_CALLS(name) archive(#name, &summary->name);
#include "interpose/format/counters.def"
}

template <typename Archive>
void fields(Archive& archive, Dropped* dropped) {
#define COUNTER_DROPPED(name, field, ...) archive(#field, &dropped->field);
#define COUNTER_DETAIL(name) archive(#name, &dropped->name);
#include "interpose/format/counters.def"
  archive("reason", &dropped->reason);
  archive("stop_time_ns", &dropped->stop_time_ns);
}

template <typename Archive>
void fields(Archive& archive, UnseenUser* user) {
  archive("path", &user->path);
  archive("own_driver", &user->own_driver);
  archive("surplus_driver", &user->surplus_driver);
}

template <typename Archive>
void fields(Archive& archive, HolderSearchInfo* search) {
  archive.number("state", &search->state, format::HolderSearch::kStopped);
  archive("ns", &search->ns);
  archive("bytes", &search->bytes);
  archive.number("heap", &search->heap, format::HeapSearch::kStopped);
  archive.number("lost", &search->lost, format::kLastLostSearch);
}

template <typename Archive>
void fields(Archive& archive, Evidence* evidence) {
  archive.named("type", &evidence->type, evidence_name, kLastEvidenceType);
  archive.named("points_to", &evidence->points_to, cause_name, kLastCause);
  archive("api", &evidence->api);
  archive("code", &evidence->code);
  archive("code_name", &evidence->code_name);
  archive("handle", &evidence->handle);
  archive("count", &evidence->count);
  archive("time_ns", &evidence->time_ns);
  archive("stack", &evidence->stack);
  archive("exception", &evidence->exception);
  archive("what", &evidence->what);
  archive("caught", &evidence->caught);
  archive("uncaught", &evidence->uncaught);
  archive("forced", &evidence->forced);
  archive("rethrown", &evidence->rethrown);
  archive("ambiguous", &evidence->ambiguous);
  archive("owner", &evidence->owner);
  archive("injected", &evidence->injected);
  archive("bytes", &evidence->bytes);
  archive("variable", &evidence->variable);
  archive("offset", &evidence->offset);
  archive("middle", &evidence->middle);
  archive("yields", &evidence->yields);
  archive("path", &evidence->path);
  archive("indirectly", &evidence->indirectly);
}

template <typename Archive>
void fields(Archive& archive, MarkShare* share) {
  archive("mark", &share->mark);
  archive("range", &share->range);
  archive("count", &share->count);
  archive("bytes", &share->bytes);
}

template <typename Archive>
void fields(Archive& archive, NameShare* share) {
  archive("name", &share->name);
  archive("count", &share->count);
}

template <typename Archive>
void fields(Archive& archive, HeapUse* heap) {
  archive("name", &heap->name);
  archive("count", &heap->count);
  archive("bytes", &heap->bytes);
  archive("used_bytes", &heap->used_bytes);
  archive("largest_hole", &heap->largest_hole);
  archive("regions", &heap->regions);
}

template <typename Archive>
void fields(Archive& archive, Outside* outside) {
  archive("api", &outside->api);
  archive("bytes", &outside->bytes);
  archive("place", &outside->place);
}

template <typename Archive>
void fields(Archive& archive, ThreadSum* sum) {
  archive("name", &sum->name);
  archive("threads", &sum->threads);
  archive("ended", &sum->ended);
  archive("processes", &sum->processes);
}

template <typename Archive>
void fields(Archive& archive, Group* group) {
  archive.number("kind", &group->kind, static_cast<format::Kind>(0xff));
  archive("api", &group->api);
  archive("driver_api", &group->driver_api);
  archive.named("cause", &group->cause, cause_name, kLastCause);
  archive("evidence", &group->evidence);
  archive("first_ns", &group->first_ns);
  archive("last_ns", &group->last_ns);
  archive("ended_bytes", &group->ended_bytes);
  archive("made", &group->made);
  archive("freed", &group->freed);
  archive("region_bytes", &group->region_bytes);
  archive("outside", &group->outside);
  archive("names", &group->names);
  archive("heaps", &group->heaps);
  archive("mappings", &group->mappings);
  archive("handle_references", &group->handle_references);
  archive("pool", &group->pool);
  archive("library", &group->library);
  archive("stack", &group->stack);
  archive("marks", &group->marks);
  archive("devices", &group->devices);
  archive("threads", &group->thread_sums);
  archive("shares", &group->shares);
}

template <typename Archive>
void fields(Archive& archive, BreakdownEntry* entry) {
  archive("stack", &entry->stack);
  archive("api", &entry->api);
  archive.number("kind", &entry->kind, static_cast<format::Kind>(0xff));
  archive("bytes", &entry->bytes);
  archive("count", &entry->count);
  archive("pool", &entry->pool);
}

template <typename Archive>
void fields(Archive& archive, CacheInside::Place* place) {
  archive("bytes", &place->bytes);
  archive("count", &place->count);
  archive("file", &place->file);
  archive("line", &place->line);
  archive("function", &place->function);
  archive("held_by", &place->held_by);
}

template <typename Archive>
void fields(Archive& archive, Keeper* keeper) {
  archive.named("kind", &keeper->kind, keeper_kind_name, KeeperKind::kNotKnown);
  archive("path", &keeper->path);
  archive("bytes", &keeper->bytes);
  archive("count", &keeper->count);
  archive("hint", &keeper->hint);
  archive("id", &keeper->id);
}

template <typename Archive>
void fields(Archive& archive, CacheInside::Idle* idle) {
  archive.named("why", &idle->why, idle_reason_name, IdleReason::kNotKnown);
  archive("bytes", &idle->bytes);
  archive("largest", &idle->largest);
}

// Without segments.
template <typename Archive>
void fields(Archive& archive, CacheInside* inside) {
  archive("pool", &inside->pool);
  archive("taken", &inside->taken);
  archive("live_bytes", &inside->live_bytes);
  archive("idle_bytes", &inside->idle_bytes);
  archive("largest", &inside->largest);
  archive("kept", &inside->kept);
  archive("idle", &inside->idle);
  archive("hint", &inside->hint);
}

template <typename Archive>
void fields(Archive& archive, ChargedProcess* process) {
  archive("pid", &process->pid);
  archive("name", &process->name);
  archive("bytes_known", &process->bytes_known);
  archive("bytes", &process->bytes);
}

template <typename Archive>
void fields(Archive& archive, GpuCharges* charges) {
  archive("asked_ns", &charges->asked_ns);
  archive("after_end", &charges->after_end);
  archive("problem", &charges->problem);
  archive("foreign_numbers", &charges->foreign_numbers);
  archive("own_known", &charges->own_known);
  archive("own_bytes", &charges->own_bytes);
  archive("others", &charges->others);
  archive("left_out", &charges->left_out);
}

template <typename Archive>
void fields(Archive& archive, Breakdown* breakdown) {
  archive("process", &breakdown->process);
  archive("out_of_memory", &breakdown->out_of_memory);
  archive("device", &breakdown->device);
  archive("time_ns", &breakdown->time_ns);
  archive("api", &breakdown->api);
  archive("stack", &breakdown->stack);
  archive("asked_bytes", &breakdown->asked_bytes);
  archive("times", &breakdown->times);
  archive("memory", &breakdown->memory);
  archive("live_bytes", &breakdown->live_bytes);
  archive("live_count", &breakdown->live_count);
  archive("entries", &breakdown->entries);
  archive("other_bytes", &breakdown->other_bytes);
  archive("other_count", &breakdown->other_count);
  archive("other_stacks", &breakdown->other_stacks);
  archive("caches", &breakdown->caches);
  archive("charges", &breakdown->charges);
}

template <typename Archive>
void fields(Archive& archive, BalanceItem* item) {
  archive.named("what", &item->what, balance_name, kLastBalancePart);
  archive("bytes", &item->bytes);
}

template <typename Archive>
void fields(Archive& archive, ExecutableUse* use) {
  archive("known", &use->known);
  archive("live", &use->live);
  archive("at_least", &use->at_least);
  archive("at_most", &use->at_most);
}

template <typename Archive>
void fields(Archive& archive, DeviceShare* share) {
  archive("recorded", &share->recorded);
  archive.number("problem", &share->problem, format::kLastGpuProblem);
  archive("own", &share->own);
  archive("processes", &share->processes);
  archive("largest", &share->largest);
  archive("not_attributed", &share->not_attributed);
}

template <typename Archive>
void fields(Archive& archive, Balance* balance) {
  archive("process", &balance->process);
  archive("device", &balance->device);
  archive.number("moment", &balance->moment, format::Moment::kExit);
  archive("time_ns", &balance->time_ns);
  archive("in_use", &balance->in_use);
  archive("total", &balance->total);
  archive("others_included", &balance->others_included);
  archive("contexts_at_most", &balance->contexts_at_most);
  archive("share", &balance->share);
  archive("not_known", &balance->not_known);
  archive("unmeasured", &balance->unmeasured);
  archive("managed", &balance->managed);
  archive("stack_limit", &balance->stack_limit);
  archive("printf_limit", &balance->printf_limit);
  archive("heap_limit", &balance->heap_limit);
  archive("threads", &balance->threads);
  archive("executables", &balance->executables);
  archive("items", &balance->items);
}

template <typename Archive>
void fields(Archive& archive, CallCharge* charge) {
  archive("process", &charge->process);
  archive("device", &charge->device);
  archive.named("what", &charge->what, balance_name, kLastBalancePart);
  archive("api", &charge->api);
  archive("stack", &charge->stack);
  archive("bytes", &charge->bytes);
  archive("count", &charge->count);
  archive("first_ns", &charge->first_ns);
  archive("last_ns", &charge->last_ns);
  archive("ended", &charge->ended);
  archive("beside_others", &charge->beside_others);
  archive("made", &charge->made);
  archive("live", &charge->live);
  archive("most_live", &charge->most_live);
  archive("growing", &charge->growing);
}

template <typename Archive>
void fields(Archive& archive, ContextInfo* context) {
  archive("process", &context->process);
  archive("device", &context->device);
  archive.number("kind", &context->kind, static_cast<format::Kind>(0xff));
  archive("api", &context->api);
  archive("stack", &context->stack);
  archive("created_ns", &context->created_ns);
  archive("ended", &context->ended);
  archive("bytes", &context->bytes);
  archive("others_included", &context->others_included);
  archive("beside_others", &context->beside_others);
  archive("stray", &context->stray);
  archive("allocates_on", &context->allocates_on);
  archive("leftover_bytes", &context->leftover_bytes);
}

template <typename Archive>
void fields(Archive& archive, Overwritten* one) {
  archive("process", &one->process);
  archive.named("place", &one->place, overwritten_place_name, OverwrittenPlace::kValue);
  archive("variable", &one->variable);
  archive("module", &one->module);
  archive("api", &one->api);
  archive("count", &one->count);
  archive("bytes", &one->bytes);
  archive("device", &one->device);
  archive("first_ns", &one->first_ns);
  archive("last_ns", &one->last_ns);
  archive("stack", &one->stack);
}

template <typename Archive>
void fields(Archive& archive, Sharing* sharing) {
  archive("process", &sharing->process);
  archive.number("role", &sharing->role, format::SharingRole::kImport);
  archive.number("type", &sharing->type, format::kLastSharingType);
  archive.number("kind", &sharing->kind, static_cast<format::Kind>(0xff));
  archive("key", &sharing->key);
  archive("device", &sharing->device);
  archive("gpu", &sharing->gpu);
  archive("bytes", &sharing->bytes);
  archive("count", &sharing->count);
  archive("time_ns", &sharing->time_ns);
  archive("ended_ns", &sharing->ended_ns);
  archive("stack", &sharing->stack);
  archive("export_stack", &sharing->export_stack);
  archive("end_stack", &sharing->end_stack);
}

template <typename Archive>
void fields(Archive& archive, MarkInfo* mark) {
  archive("name", &mark->name);
  archive.number("kind", &mark->kind, format::MarkKind::kMoment);
  archive("first_ns", &mark->first_ns);
  archive("last_ns", &mark->last_ns);
  archive("count", &mark->count);
}

template <typename Archive>
void fields(Archive& archive, ErrorGroup* error) {
  archive.number("type", &error->type, format::ErrorType::kFailedFree);
  archive("api", &error->api);
  archive("driver_api", &error->driver_api);
  archive("code", &error->code);
  archive("code_name", &error->code_name);
  archive.number("kind", &error->kind, static_cast<format::Kind>(0xff));
  archive("handle", &error->handle);
  archive("allocation_handle", &error->allocation_handle);
  archive("bytes", &error->bytes);
  archive("count", &error->count);
  archive("first_ns", &error->first_ns);
  archive("last_ns", &error->last_ns);
  archive("device", &error->device);
  archive("stack", &error->stack);
  archive("allocation_stack", &error->allocation_stack);
  archive("free_stack", &error->free_stack);
}

template <typename Archive>
void fields(Archive& archive, FailedAllocation* failed) {
  archive("api", &failed->api);
  archive("driver_api", &failed->driver_api);
  archive("code", &failed->code);
  archive("code_name", &failed->code_name);
  archive("injected", &failed->injected);
  archive("count", &failed->count);
  archive("bytes", &failed->bytes);
  archive("first_ns", &failed->first_ns);
  archive("last_ns", &failed->last_ns);
  archive("stack", &failed->stack);
}

template <typename Archive>
void fields(Archive& archive, AuditedFunction* function) {
  archive("api", &function->api);
  archive("calls", &function->calls);
}

template <typename Archive>
void fields(Archive& archive, NotRecordedCalls* calls) {
  archive("api", &calls->api);
  archive("count", &calls->count);
  archive("bytes", &calls->bytes);
  archive("stack", &calls->stack);
}

template <typename Archive>
void fields(Archive& archive, Audit* audit) {
  archive.number("state", &audit->state, format::AuditState::kForkParent);
  archive("error", &audit->error);
  archive("end_ns", &audit->end_ns);
  archive("not_audited", &audit->not_audited);
  archive("functions", &audit->functions);
  archive("not_recorded", &audit->not_recorded);
}

template <typename Archive>
void fields(Archive& archive, DumpOfRun* dump) {
  archive("path", &dump->path);
  archive("pid", &dump->pid);
  archive("start_realtime_ns", &dump->start_realtime_ns);
}

template <typename Archive>
void fields(Archive& archive, ProcessWithoutDump* process) {
  archive("pid", &process->pid);
  archive("program", &process->program);
  archive("reason", &process->reason);
  archive("tells_deed", &process->tells_deed);
}

template <typename Archive>
void fields(Archive& archive, RunRecord* run) {
  archive("id", &run->id);
  archive("problem", &run->problem);
  archive("ended", &run->ended);
  archive("failure", &run->failure);
  archive("lives_on", &run->lives_on);
  archive("notes", &run->notes);
  archive("whole_job", &run->whole_job);
  archive("dumps", &run->dumps);
  archive("without_dump", &run->without_dump);
}

template <typename Archive>
void fields(Archive& archive, Report* report) {
  archive("process", &report->process);
  archive("processes", &report->job);
  archive("hook_called", &report->hook_called);
  archive("unseen", &report->unseen);
  archive("partly_recorded", &report->partly_recorded);
  archive("runs", &report->runs);
  archive("not_joined", &report->not_joined);
  archive("audit", &report->audit);
#define COUNTER_REPORT(name) archive(#name, &report->name);
#include "interpose/format/counters.def"
  archive("devices", &report->devices);
  archive("summary", &report->summary);
  archive("live_cached_bytes", &report->live_cached_bytes);
  archive("caches_unseen", &report->caches_unseen);
  archive("python_ends_unseen", &report->python_ends_unseen);
  archive("caches_inside", &report->caches_inside);
  archive("ran_out", &report->ran_out);
  archive("pictures", &report->breakdowns);
  archive("freed_at_end", &report->freed_at_end);
  archive("balances", &report->balances);
  archive("bills", &report->call_charges);
  archive("contexts", &report->contexts);
  archive("overwritten", &report->overwritten);
  archive("sharings", &report->sharings);
  archive("marks", &report->marks);
  archive("dropped", &report->dropped);
  archive("holder_search", &report->holder_search);
  archive("leaks", &report->leaks);
  archive("library", &report->library);
  archive("resources", &report->resources);
  archive("errors", &report->errors);
  archive("failed_allocations", &report->failed_allocations);
  archive("notes", &report->notes);
}

// The objects that groups point to.

template <typename Archive>
void fields(Archive& archive, Module* module) {
  archive("path", &module->path);
  archive("name", &module->name);
  archive("build_id", &module->build_id);
  archive("executable", &module->executable);
  archive("has_debug_info", &module->has_debug_info);
  archive("own_unwinder", &module->own_unwinder);
  archive.named("state", &module->state, module_state_name, ModuleState::kUnreadable);
}

template <typename Archive>
void fields(Archive& archive, Frame* frame) {
  archive("function", &frame->function);
  archive("file", &frame->file);
  archive("line", &frame->line);
  archive("module", &frame->module);
  archive("offset", &frame->offset);
  archive("inlined", &frame->inlined);
  archive("python", &frame->python);
  archive("approximate", &frame->approximate);
  archive("symbol_offset", &frame->symbol_offset);
  archive("symbol", &frame->symbol);
}

template <typename Archive>
void fields(Archive& archive, Variable* variable) {
  archive("module", &variable->module);
  archive("name", &variable->name);
  archive("begin", &variable->begin);
  archive("python", &variable->python);
  archive("steps", &variable->steps);
  archive("path", &variable->path);
  archive("typed", &variable->typed);
}

template <typename Archive>
void fields(Archive& archive, ResolvedStack* stack) {
  archive("frames", &stack->frames);
  archive("caller", &stack->caller);
  archive("runtime_api", &stack->runtime_api);
  archive("through_runtime", &stack->through_runtime);
  archive("truncated", &stack->truncated);
  archive("merged", &stack->merged);
  archive("has_python", &stack->has_python);
  archive("hidden_inside", &stack->hidden_inside);
  archive("hidden_outside", &stack->hidden_outside);
}

}  // namespace culprit::report
