// The fields of a run as a whole: the process, its devices, how much was recorded, and the report itself.
#pragma once

#include <string>

#include "report/base/words.h"
#include "report/dump/process_status.h"
#include "report/fields/field_list.h"
#include "report/fields/leak_fields.h"
#include "report/fields/memory_fields.h"
#include "report/fields/shown_values.h"
#include "report/model/marks.h"
#include "report/model/names.h"
#include "report/model/report.h"

namespace culprit::report {

inline std::optional<bool> has_ended(Ended ended, bool gone) {
  return value_if(ended != Ended::kUnknown || gone, ended != Ended::kRunning);
}

template <typename Archive>
void fields(Archive& archive, ProcessInfo* process) {
  ProcessStatus& status = process->status;
  const auto ended_by = [&status](Ended how) { return status.ended == how; };
  archive.field("pid", &process->pid, "as the process saw them");
  archive.field("parent_pid", &process->parent_pid, "");
  archive.field("host", &process->host, "");
  archive.field("rank", &process->rank, "in its parallel job; null: it is in none");
  archive.field("job_size", &process->job_size, "",
                [&] { return value_if(process->job_size != 0, process->job_size); });
  archive.field("exe", &process->executable, "as the process saw them");
  archive.field("command", &process->command, "");
  archive.field("working_directory", &process->working_directory, "");
  archive.named("ended", &status.ended, ended_name, Ended::kUnknown,
                "`killed` only where a signal is proven; `unknown` also when the process left no mark");
  archive.field("exit_status", &status.exit_status, "0 to 255; null unless it ended by `exit`",
                [&] { return value_if(ended_by(Ended::kExit), status.exit_status); });
  archive.shown("has_ended", "true: it has ended, however; false: it runs; null: not known",
                [&] { return has_ended(status.ended, status.gone); });
  archive.shown(
      "signal", "only of a killed process: `SIGKILL`, ...; null: not known",
      shown_if(ended_by(Ended::kKilled), [&] { return value_if(status.signal != 0, signal_text(status.signal)); }));
  archive.kept("gone", &status.gone);
  archive.shown("attached", "only when `culprit attach` recorded: `redirect` or `cupti`; true: it was detached",
                shown_if(process->attached.has_value(), [&] { return process->attached; }));
  archive.shown("detached", "", shown_if(process->attached.has_value(), [&] { return status.detached; }));
  archive.field("start_realtime_ns", &process->start_realtime_ns, "wall clock at time 0; duration until the end");
  archive.field("end_time_ns", &process->end_time_ns, "");
  archive.field("driver_version", &process->driver_version, "CUDA version of the driver (13000); null: it did not say",
                [&] { return value_if(process->driver_version != 0, process->driver_version); });
  archive.field("libculprit_version", &process->tool_version, "version of the recorder");
}

template <typename Archive>
void fields(Archive& archive, JobProcess* process) {
  archive.field("rank", &process->rank, "as in `process`");
  archive.field("pid", &process->pid, "");
  archive.field("host", &process->host, "");
  archive.field("dump", &process->dump_path, "path of the dump");
  archive.kept("job_size", &process->job_size);
  archive.kept("start_realtime_ns", &process->start_realtime_ns);
  archive.named("ended", &process->ended, ended_name, Ended::kUnknown, "as in `process`");
  archive.field("exit_status", &process->exit_status, "",
                [&] { return value_if(process->ended == Ended::kExit, process->exit_status); });
  archive.shown("has_ended", "", [&] { return has_ended(process->ended, process->gone); });
  archive.field("signal", &process->signal, "null: none, or not known",
                [&] { return value_if(process->signal != 0, signal_text(process->signal)); });
  archive.kept("gone", &process->gone);
  archive.shown("leaked_bytes", "of this process alone", [&] { return process->leaked_bytes; });
  archive.shown("leaked_allocations", "", [&] { return process->leaked_allocations; });
  archive.field("peak_live_bytes", &process->peak_live_bytes,
                "the most that it had allocated of one GPU; 0: not known, as of files that older versions merged");
}

// At exit, or at the last moment that is known; nullptr: there is none.
inline const Balance* balance_of(const Report* report, unsigned device) {
  if (report == nullptr || !report->job.empty()) return nullptr;
  for (const Balance& balance : report->balances) {
    if (balance.device == device) return &balance;
  }
  return nullptr;
}

template <typename Archive>
void fields(Archive& archive, DeviceInfo* device) {
  archive.field("ordinal", &device->ordinal, "as the process numbers the devices");
  archive.field("uuid", &device->uuid, "`GPU-...`, `MIG-...`");
  archive.field("name", &device->name, "null: the driver did not say", [&] { return or_null(device->name); });
  archive.field("mig", &device->mig, "true: a MIG instance");
  archive.object("memory", [&](auto& memory) {
    memory.field("first", &device->first,
                 "readings of the whole device: after the first allocation, with the least free memory, at exit; null: "
                 "the driver gave none",
                 [&] { return known_reading(device->first); });
    memory.field("peak", &device->peak, "", [&] { return known_reading(device->peak); });
    memory.field("exit", &device->exit, "", [&] { return known_reading(device->exit); });
  });
  archive.field("live_bytes", &device->live_bytes,
                "device memory of this process that was recorded and not freed, at the end and at most. With one "
                "thread the latter is exact, with more of them right within 4 MiB a thread");
  archive.field("peak_live_bytes", &device->peak_live_bytes, "");
  archive.kept("pool_known", &device->pool_known);
  archive.field({"pool_reserved_bytes", "pool_reserved"}, &device->pool_reserved,
                "the default memory pool at exit; null: the driver did not answer, or was not asked",
                [&] { return value_if(device->pool_known, device->pool_reserved); });
  archive.field({"pool_used_bytes", "pool_used"}, &device->pool_used, "",
                [&] { return value_if(device->pool_known, device->pool_used); });
  archive.shown("balance",
                "what the memory in use is for; those of `balances[]` at exit, or else at the last moment that is "
                "known. Empty in a merged job",
                [&] { return ShownItems{balance_of(archive.report, device->ordinal)}; });
  archive.shown("time_line", "`bucket_ns`, `peak_bytes`, `peak_ns`; null: not known",
                [&] { return ShownTimeLine{device}; });
}

// The counts that cannot be summed up from the lists. `summary` of JSON has all, and sums: render/json/.
template <typename Archive>
void fields(Archive& archive, Summary* summary) {
#define COUNTER_SUMMARY(name) archive.kept(#name, &summary->name);
#define COUNTER_CALLS(name) archive.kept(#name, &summary->name);
#include "interpose/format/counters.def"
}

template <typename Archive>
void fields(Archive& archive, Dropped* dropped) {
#define COUNTER_DROPPED(name, field, ...) archive.kept(#field, &dropped->field);
#define COUNTER_DETAIL(name) archive.kept(#name, &dropped->name);
#include "interpose/format/counters.def"
  archive.kept("reason", &dropped->reason);
  archive.kept("stop_time_ns", &dropped->stop_time_ns);
}

template <typename Archive>
void fields(Archive& archive, UnseenUser* user) {
  archive.field({"module", "path"}, &user->path, "the library");
  archive.shown("how",
                "`direct`; `namespace`: with a driver of its own; `driver`: it is itself a driver, opened while three "
                "others were",
                [&] { return user->surplus_driver ? "driver"
                             : user->own_driver   ? "namespace"
                                                  : "direct"; });
  archive.kept("own_driver", &user->own_driver);
  archive.kept("surplus_driver", &user->surplus_driver);
}

template <typename Archive>
void fields(Archive& archive, HolderSearchInfo* search) {
  archive.number("state", &search->state, format::HolderSearch::kStopped,
                 "`done`, `off`, `stopped`, `not-run`; of a merged job the worst one", holder_search_name);
  archive.field({"time_ns", "ns"}, &search->ns, "duration, and memory read, with the search for lost memory");
  archive.field("bytes", &search->bytes, "");
  archive.number("heap", &search->heap, format::HeapSearch::kStopped,
                 "how the search through the heap went: `done`, `stopped`, `not-run`: in a process with a Python "
                 "interpreter, without exit handlers, by an older library",
                 heap_search_name);
  archive.number("lost", &search->lost, format::kLastLostSearch,
                 "the search for lost memory: `done`, or why there was none: [below](#lost)", lost_search_name);
}

template <typename Archive>
void fields(Archive& archive, MarkInfo* mark) {
  archive.field("name", &mark->name, "as the program set it");
  archive.number("kind", &mark->kind, format::MarkKind::kMoment, "`mark`, `range`, `moment`", mark_kind_name);
  archive.field("count", &mark->count, "how often it was set, first and last time");
  archive.field("first_ns", &mark->first_ns, "");
  archive.field("last_ns", &mark->last_ns, "");
}

template <typename Archive>
void fields(Archive& archive, AuditedFunction* function) {
  archive.field("api", &function->api, "a function; how often CUPTI saw it");
  archive.field("calls", &function->calls, "");
}

template <typename Archive>
void fields(Archive& archive, NotRecordedCalls* calls) {
  archive.field("api", &calls->api, "a function; its calls that were not recorded");
  archive.field("count", &calls->count, "");
  archive.field("bytes", &calls->bytes, "as far as known");
  archive.field("stack", &calls->stack, "`[]`: beyond the four stacks kept of a function");
}

template <typename Archive>
void fields(Archive& archive, Audit* audit) {
  archive.keep_number("state", &audit->state, format::AuditState::kForkParent);
  archive.kept("error", &audit->error);
  archive.kept("end_ns", &audit->end_ns);
  archive.shown("calls", "that CUPTI saw, of functions that make or end something",
                [&] { return audited_calls(*audit); });
  archive.shown("functions", "number of functions", [&] { return audit->functions.size(); });
  archive.shown("problem", "why there was no audit or only a part of one, else null",
                [&] { return or_null(why_no_audit(*audit)); });
  archive.field("not_audited", &audit->not_audited,
                "only where it is not 0: processes of a merged job without an audit",
                shown_if(audit->not_audited != 0));
  archive.field({"by_function", "functions"}, &audit->functions, "all functions");
  archive.field("not_recorded", &audit->not_recorded, "calls that only CUPTI saw");
}

template <typename Archive>
void fields(Archive& archive, DumpOfRun* dump) {
  archive.kept("path", &dump->path);
  archive.kept("pid", &dump->pid);
  archive.kept("start_realtime_ns", &dump->start_realtime_ns);
}

template <typename Archive>
void fields(Archive& archive, ProcessWithoutDump* process) {
  archive.kept("pid", &process->pid);
  archive.kept("program", &process->program);
  archive.kept("reason", &process->reason);
  archive.kept("tells_deed", &process->tells_deed);
}

template <typename Archive>
void fields(Archive& archive, RunRecord* run) {
  archive.kept("id", &run->id);
  archive.kept("problem", &run->problem);
  archive.kept("ended", &run->ended);
  archive.kept("failure", &run->failure);
  archive.kept("lives_on", &run->lives_on);
  archive.kept("notes", &run->notes);
  archive.kept("whole_job", &run->whole_job);
  archive.kept("dumps", &run->dumps);
  archive.kept("without_dump", &run->without_dump);
}

}  // namespace culprit::report
