#include "report/render/json/head_json.h"

#include <nlohmann/json.hpp>

#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/findings/answers.h"
#include "report/findings/finding.h"
#include "report/findings/sharing_words.h"
#include "report/judge/explainer.h"
#include "report/judge/out_of_memory.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/pool.h"
#include "report/model/report.h"
#include "report/render/json/finding_json.h"
#include "report/render/json/group_json.h"

namespace culprit::report {
namespace {

Json reading_json(const format::MemoryReading& reading) {
  if (reading.total_bytes == 0) return Json();
  return {{"time_ns", reading.time_ns}, {"free_bytes", reading.free_bytes}, {"total_bytes", reading.total_bytes}};
}

Json has_ended_json(Ended ended, bool gone) {
  if (ended == Ended::kUnknown && !gone) return Json();
  return ended != Ended::kRunning;
}

Json process_json(const ProcessInfo& process) {
  Json one;
  one["pid"] = process.pid;
  one["parent_pid"] = process.parent_pid;
  one["host"] = process.host;
  one["rank"] = process.rank ? Json(*process.rank) : Json();
  one["job_size"] = process.job_size != 0 ? Json(process.job_size) : Json();
  one["exe"] = process.executable;
  one["command"] = process.command;
  one["working_directory"] = process.working_directory;
  one["ended"] = ended_name(process.status.ended);
  one["exit_status"] = process.status.ended == Ended::kExit ? Json(process.status.exit_status) : Json();
  one["has_ended"] = has_ended_json(process.status.ended, process.status.gone);
  if (process.status.ended == Ended::kKilled)
    one["signal"] = process.status.signal != 0 ? Json(signal_text(process.status.signal)) : Json();
  if (process.attached) {
    one["attached"] = *process.attached;
    one["detached"] = process.status.detached;
  }
  one["start_realtime_ns"] = process.start_realtime_ns;
  one["end_time_ns"] = process.end_time_ns;
  one["driver_version"] = process.driver_version != 0 ? Json(process.driver_version) : Json();
  one["libculprit_version"] = process.tool_version;
  return one;
}

Json job_json(const Report& report) {
  Json list = Json::array();
  for (const JobProcess& process : report.job) {
    list.push_back({{"rank", process.rank ? Json(*process.rank) : Json()},
                    {"pid", process.pid},
                    {"host", process.host},
                    {"dump", process.dump_path},
                    {"ended", ended_name(process.ended)},
                    {"exit_status", process.ended == Ended::kExit ? Json(process.exit_status) : Json()},
                    {"has_ended", has_ended_json(process.ended, process.gone)},
                    {"signal", process.signal != 0 ? Json(signal_text(process.signal)) : Json()},
                    {"leaked_bytes", process.leaked_bytes},
                    {"leaked_allocations", process.leaked_allocations},
                    {"peak_live_bytes", process.peak_live_bytes}});
  }
  return list;
}

Json summary_json(const Report& report) {
  const Summary& summary = report.summary;
  Json one;
  one["leaked_bytes"] = summary.leaked_bytes;
  one["leaked_allocations"] = summary.leaked_allocations;
  one["groups"] = summary.groups;
  one["cached_bytes"] = summary.cached_bytes;
  one["live_cached_bytes"] = report.live_cached_bytes;
  one["errors"] = summary.errors;
  one["failed_allocations"] = summary.failed_allocations;
  one["dropped"] = report.dropped.total();
  one["leaked_device_bytes"] = summary.leaked_device_bytes;
  one["leaked_host_bytes"] = summary.leaked_host_bytes;
  one["library_bytes"] = summary.library_bytes;
  one["library_allocations"] = summary.library_allocations;
  one["resources"] = summary.resources;
  one["thread_ended_bytes"] = summary.thread_ended_bytes;
#define COUNTER_SUMMARY(name) one[#name] = summary.name;
#define COUNTER_CALLS(name) one[#name] = summary.name;
#define COUNTER_DROPPED(name, field, ...) one[#name] = report.dropped.field;
#include "interpose/format/counters.def"
  one["complete"] = is_complete(report);
  one["verdict"] = verdict_name(verdict_of(report));
  one["not_known"] = reasons_not_known(report);
  const std::string not_searched = not_searched_text(report);
  one["not_searched"] = not_searched.empty() ? Json() : Json(not_searched);
#define COUNTER_DETAIL(name) one[#name] = report.dropped.name;
#include "interpose/format/counters.def"
  one["stop_reason"] = report.dropped.reason.empty() ? Json() : Json(report.dropped.reason);
  one["caches"] = Json::array();
  for (const CacheTotal& cache : summary.caches) {
    Json total = {{"pool", cache.pool->name}, {"bytes", cache.bytes}, {"segments", cache.segments}};
    for (const CacheInside& inside : report.caches_inside) {
      if (inside.pool == cache.pool->name) total["inside"] = inside_json(inside);
    }
    one["caches"].push_back(std::move(total));
  }
  one["ran_out"] = Json::array();
  for (const CacheInside& inside : report.ran_out) {
    Json cache = inside_json(inside);
    cache["pool"] = inside.pool;
    one["ran_out"].push_back(std::move(cache));
  }
  one["totals"] = Json::array();
  for (const Total& total : summary.totals) {
    one["totals"].push_back({{"device", device_json(total.device)},
                             {"kind", kind_name(total.kind)},
                             {"bytes", total.bytes},
                             {"count", total.count}});
  }
  return one;
}

Json hidden_json(const HiddenTotal& hidden) {
  return {{"groups", hidden.groups}, {"allocations", hidden.allocations}, {"bytes", hidden.bytes}};
}

Json suppressed_json(const Report& report) {
  Json list = Json::array();
  for (const SuppressionUse& use : report.suppressed) {
    Json one = hidden_json(use.hidden);
    one["file"] = use.path;
    one["line"] = use.line;
    one["suppression"] = use.text;
    list.push_back(std::move(one));
  }
  return list;
}

Json baseline_json(const BaselineResult& baseline) {
  Json one = {{"file", baseline.path},
              {"new", baseline.added},
              {"grown", baseline.grown},
              {"known", baseline.known},
              {"gone", baseline.gone}};
  if (baseline.knows_keepers) one["keepers"] = growth_json(baseline.keepers);
  return one;
}

Json marks_with_bytes_json(const Report& report) {
  Json list = Json::array();
  for (const MarkedMemory& marked : report.marked) {
    list.push_back({{"name", marked.name},
                    {"number", marked.number},
                    {"time_ns", marked.time_ns},
                    {"live_bytes", marked.bytes},
                    {"live_allocations", marked.count}});
  }
  return {{"taken", report.marked_taken}, {"kept", std::move(list)}};
}

Json bound_json(const MarkBound& bound) {
  return {{"name", bound.asked},
          {"number", bound.time_ns ? Json(bound.number) : Json()},
          {"of", bound.time_ns ? Json(bound.count) : Json()},
          {"time_ns", bound.time_ns ? Json(*bound.time_ns) : Json()}};
}

Json marks_json(const Report& report) {
  Json list = Json::array();
  for (const MarkInfo& mark : report.marks) {
    list.push_back({{"name", mark.name},
                    {"kind", mark_kind_name(mark.kind)},
                    {"count", mark.count},
                    {"first_ns", mark.first_ns},
                    {"last_ns", mark.last_ns}});
  }
  return list;
}

Json recording_json(const Report& report) {
  Json one;
  one["state"] = report.recording.off ? "off" : "on";
  const std::string share = recorded_share_text(report);
  one["share"] = share.empty() ? Json() : Json(share);
  one["last_switch_ns"] = report.recording.last_switch_ns;
  one["process_age_ns"] = report.recording.process_age_ns;
  one["spans"] = Json::array();
  for (const RecordedSpan& span : report.recording.spans) {
    one["spans"].push_back({{"begin_ns", span.begin_ns},
                            {"end_ns", span.end_ns == 0 ? Json() : Json(span.end_ns)},
                            {"device", device_json(span.device)},
                            {"read", span.device ? Json(span.read_at_begin ? "begin" : "first allocation") : Json()},
                            {"used_bytes", span.device ? Json(span.used_bytes) : Json()},
                            {"total_bytes", span.device ? Json(span.total_bytes) : Json()}});
  }
  return one;
}

Json time_line_json(const TimeLine& line) {
  if (line.buckets.empty()) return Json();
  return {{"bucket_ns", line.bucket_ns}, {"peak_bytes", line.peak_bytes}, {"peak_ns", line.peak_ns}};
}

Json items_json(const Balance& balance) {
  Json list = Json::array();
  for (const BalanceItem& item : balance.items) {
    Json one = {{"what", balance_name(item.what)}, {"bytes", item.bytes}};
    const ExecutableUse& use = balance.executables;
    if (item.what == BalancePart::kGraphExecutables && use.known) {
      one["live"] = use.live;
      one["in_use_at_least_bytes"] = use.at_least;
      one["in_use_at_most_bytes"] = use.at_most;
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

const char* name_of(LineOf what) {
  switch (what) {
    case LineOf::kAllocations:
      return "allocations";
    case LineOf::kSegments:
      return "segments";
    case LineOf::kTensors:
      return "tensors";
  }
  return "";
}

void add_place(const Frame& frame, Json* one) {
  (*one)["file"] = or_null(frame.file);
  (*one)["line"] = frame.file.empty() ? Json() : Json(frame.line);
  (*one)["function"] = or_null(frame.function);
}

Json line_json(const HolderLine& line) {
  Json one = {{"what", name_of(line.what)}, {"bytes", line.bytes}, {"count", line.count}, {"pool", or_null(line.pool)}};
  if (line.what == LineOf::kTensors) {
    one["file"] = or_null(line.file);
    one["line"] = line.file.empty() ? Json() : Json(line.line);
    one["function"] = or_null(line.function);
    one["held_by"] = or_null(line.held_by);
    return one;
  }
  static const Frame kUnknown;
  add_place(line.frame == nullptr ? kUnknown : *line.frame, &one);
  one["api"] = line.api;
  one["kind"] = kind_name(line.kind);
  one["callers"] = Json::array();
  for (const LineCaller& caller : line.callers) {
    Json place = {{"bytes", caller.bytes}, {"count", caller.count}};
    add_place(*caller.frame, &place);
    one["callers"].push_back(std::move(place));
  }
  one["stack"] = stack_json(line.stack);
  return one;
}

Json idle_json(const IdleMemory& idle) {
  Json one = {{"what", balance_name(idle.part)}, {"bytes", idle.bytes}};
  if (idle.cache == nullptr) return one;
  one["pool"] = idle.name;
  one["live_bytes"] = idle.cache->live_bytes;
  one["reasons"] = Json::array();
  for (const CacheInside::Idle& part : idle.cache->idle)
    one["reasons"].push_back(
        {{"why", idle_reason_name(part.why)}, {"bytes", part.bytes}, {"largest_bytes", part.largest}});
  return one;
}

// Fields of both a breakdown and an explained failure.
Json moment_json(const Report& report, const Breakdown& breakdown) {
  Json one;
  if (!report.job.empty()) one["process"] = breakdown.process;
  one["device"] = device_json(breakdown.device);
  one["time_ns"] = breakdown.time_ns;
  if (breakdown.out_of_memory) {
    one["api"] = breakdown.api;
    one["asked_bytes"] = breakdown.asked_bytes;
    one["times"] = breakdown.times;
    one["stack"] = stack_json(breakdown.stack);
  }
  one["memory"] = reading_json(breakdown.memory);
  one["live_bytes"] = breakdown.live_bytes;
  return one;
}

// NVML's answer about the device; null where it was not asked.
void add_charges(const Breakdown& breakdown, Json* one) {
  (*one)["nvml"] = Json();
  (*one)["other_processes"] = Json();
  for (const GpuCharges& charges : breakdown.charges) {
    (*one)["nvml"] = {{"time_ns", charges.asked_ns},
                      {"after_end", charges.after_end},
                      {"problem", or_null(charges.problem)},
                      {"process_bytes", charges.own_known ? Json(charges.own_bytes) : Json()},
                      {"foreign_pids", charges.foreign_numbers},
                      {"left_out", charges.left_out}};
    if (!charges.problem.empty()) continue;
    Json others = Json::array();
    for (const ChargedProcess& process : charges.others) {
      others.push_back({{"pid", process.pid},
                        {"name", or_null(process.name)},
                        {"bytes", process.bytes_known ? Json(process.bytes) : Json()}});
    }
    (*one)["other_processes"] = std::move(others);
  }
}

Json out_of_memory_json(const Report& report) {
  Json list = Json::array();
  const Explainer explainer(report);
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory) continue;
    const OutOfMemory failure = explainer.explain(breakdown);
    Json one = moment_json(report, breakdown);
    one["lines"] = Json::array();
    for (const HolderLine& line : failure.lines) one["lines"].push_back(line_json(line));
    one["other_bytes"] = breakdown.other_bytes;
    one["idle"] = Json::array();
    for (const IdleMemory& idle : failure.idle) one["idle"].push_back(idle_json(idle));
    one["other_processes_at_most_bytes"] = failure.balance == nullptr ? Json() : Json(failure.others_at_most);
    add_charges(breakdown, &one);
    one["balance"] = failure.balance == nullptr ? Json::array() : items_json(*failure.balance);
    one["missing_bytes"] = failure.missing;
    one["would_fit"] = {{"rule", failure.rule}, {"text", failure.would_fit}};
    list.push_back(std::move(one));
  }
  return list;
}

// The balance of the device at exit, or at the last moment that is known; of a process's report only.
Json balance_json(const Report& report, unsigned device) {
  for (const Balance& balance : report.balances) {
    if (report.job.empty() && balance.device == device) return items_json(balance);
  }
  return Json::array();
}

Json neighbours_json(const DeviceShare& share) {
  if (!share.is_known()) return {};
  Json list = Json::array();
  for (const ChargedProcess& process : share.largest) {
    list.push_back({{"pid", process.pid},
                    {"name", or_null(process.name)},
                    {"bytes", process.bytes_known ? Json(process.bytes) : Json()}});
  }
  return list;
}

Json not_known_json(const Balance& balance) {
  Json list = Json::array();
  for (const BalanceItem& item : balance.not_known) list.push_back(balance_name(item.what));
  return list;
}

// Null: of an older dump, too.
Json own_bytes_json(const DeviceShare& share) { return share.is_known() ? Json(share.own) : Json(); }

Json balances_json(const Report& report) {
  Json list = Json::array();
  for (const Balance& balance : report.balances) {
    Json one;
    if (!report.job.empty()) one["process"] = balance.process;
    one["device"] = balance.device;
    one["moment"] = moment_name(balance.moment);
    one["time_ns"] = balance.time_ns;
    one["in_use_bytes"] = balance.in_use;
    one["total_bytes"] = balance.total;
    one["others_included"] = balance.others_included;
    one["process_bytes"] = own_bytes_json(balance.share);
    one["problem"] = balance.share.recorded ? or_null(problem_words(balance.share.problem)) : Json();
    one["other_processes"] = neighbours_json(balance.share);
    one["other_processes_count"] = balance.share.is_known() ? Json(balance.share.processes) : Json();
    one["not_known"] = not_known_json(balance);
    one["calls_not_attributed"] = balance.share.not_attributed;
    one["managed_bytes"] = balance.managed;
    one["calls_not_measured"] = balance.unmeasured;
    one["limits"] = {{"stack", balance.stack_limit},
                     {"printf_fifo", balance.printf_limit},
                     {"heap", balance.heap_limit},
                     {"threads", balance.threads}};
    one["items"] = items_json(balance);
    list.push_back(std::move(one));
  }
  return list;
}

Json call_charges_json(const Report& report) {
  Json list = Json::array();
  for (const CallCharge& charge : report.call_charges) {
    Json one;
    if (!report.job.empty()) one["process"] = charge.process;
    one["device"] = charge.device;
    one["what"] = balance_name(charge.what);
    one["api"] = charge.api;
    one["bytes"] = charge.bytes;
    one["count"] = charge.count;
    one["ended"] = charge.ended;
    one["beside_others"] = charge.beside_others;
    if (charge.made != 0) {
      one["made"] = charge.made;
      one["live"] = charge.live;
      one["most_live"] = charge.most_live;
      one["growing"] = charge.growing;
    }
    one["stack"] = stack_json(charge.stack);
    list.push_back(std::move(one));
  }
  return list;
}

Json contexts_json(const Report& report) {
  Json list = Json::array();
  for (const ContextInfo& context : report.contexts) {
    Json one;
    if (!report.job.empty()) one["process"] = context.process;
    one["device"] = context.device;
    one["kind"] = kind_name(context.kind);
    one["api"] = context.api;
    one["bytes"] = context.bytes != 0 ? Json(context.bytes) : Json();
    one["others_included"] = context.others_included;
    one["beside_others"] = context.beside_others;
    one["created_ns"] = context.created_ns;
    one["ended"] = context.ended;
    one["stray"] = context.stray;
    if (context.stray) {
      one["stray_kind"] = context.leftover_bytes == 0 ? "empty" : "leftovers";
      one["leftover_bytes"] = context.leftover_bytes;
      one["allocates_on"] = context.allocates_on;
    }
    if (context.thread) one["thread"] = thread_json(*context.thread);
    one["stack"] = stack_json(context.stack);
    list.push_back(std::move(one));
  }
  return list;
}

Json overwritten_json(const Report& report) {
  Json list = Json::array();
  for (const Overwritten& one : report.overwritten) {
    Json entry;
    if (!report.job.empty()) entry["process"] = one.process;
    entry["variable"] = one.variable;
    entry["place"] = overwritten_place_name(one.place);
    entry["module"] = one.module;
    entry["api"] = one.api;
    entry["count"] = one.count;
    entry["bytes"] = one.bytes;
    entry["device"] = one.device ? Json(*one.device) : Json();
    entry["first_ns"] = one.first_ns;
    entry["last_ns"] = one.last_ns;
    entry["stack"] = stack_json(one.stack);
    list.push_back(std::move(entry));
  }
  return list;
}

// The process at one end of a hand-over.
Json side_json(const Report& report, const SharingSide& side) {
  Json one;
  if (!report.job.empty()) one["process"] = side.in_report ? Json(side.process) : Json();
  one["pid"] = side.pid;
  one["rank"] = side.rank ? Json(*side.rank) : Json();
  one["host"] = side.host;
  one["running"] = side.ended == Ended::kRunning;
  return one;
}

Json shared_json(const Report& report) {
  Json list = Json::array();
  for (const SharedMemory& shared : report.shared) {
    Json one;
    one["state"] = shared_state_name(shared.state);
    one["type"] = sharing_type_name(shared.type);
    one["certain"] = shared.certain;
    one["device"] = device_json(shared.device);
    one["gpu"] = shared.gpu;
    one["bytes"] = shared.bytes != 0 ? Json(shared.bytes) : Json();
    one["count"] = shared.count;
    one["text"] = shared_memory_text(shared);
    Json importer = side_json(report, shared.importer);
    importer["opened_ns"] = shared.opened_ns;
    importer["stack"] = stack_json(shared.opened);
    one["importer"] = std::move(importer);
    if (shared.exporter) {
      Json exporter = side_json(report, *shared.exporter);
      exporter["allocation_stack"] = stack_json(shared.allocated);
      exporter["stack"] = stack_json(shared.exported);
      exporter["freed_ns"] = shared.freed != nullptr ? Json(shared.freed_ns) : Json();
      exporter["free_stack"] = shared.freed != nullptr ? stack_json(shared.freed) : Json();
      one["exporter"] = std::move(exporter);
    } else {
      one["exporter"] = Json();
    }
    list.push_back(std::move(one));
  }
  return list;
}

Json devices_json(const Report& report) {
  Json list = Json::array();
  for (const DeviceInfo& device : report.devices) {
    list.push_back({{"ordinal", device.ordinal},
                    {"uuid", device.uuid},
                    {"name", device.name.empty() ? Json() : Json(device.name)},
                    {"mig", device.mig},
                    {"memory",
                     {{"first", reading_json(device.first)},
                      {"peak", reading_json(device.peak)},
                      {"exit", reading_json(device.exit)}}},
                    {"live_bytes", device.live_bytes},
                    {"peak_live_bytes", device.peak_live_bytes},
                    {"pool_reserved_bytes", device.pool_known ? Json(device.pool_reserved) : Json()},
                    {"pool_used_bytes", device.pool_known ? Json(device.pool_used) : Json()},
                    {"balance", balance_json(report, device.ordinal)},
                    {"time_line", time_line_json(device.time_line)}});
  }
  return list;
}

Json holder_search_json(const HolderSearchInfo& search) {
  return {{"state", holder_search_name(search.state)},
          {"time_ns", search.ns},
          {"bytes", search.bytes},
          {"heap", heap_search_name(search.heap)},
          {"lost", lost_search_name(search.lost)}};
}

Json entries_json(const Breakdown& breakdown) {
  Json list = Json::array();
  for (const BreakdownEntry& entry : breakdown.entries) {
    list.push_back({{"api", entry.api},
                    {"kind", kind_name(entry.kind)},
                    {"bytes", entry.bytes},
                    {"count", entry.count},
                    {"stack", stack_json(entry.stack)}});
  }
  return list;
}

Json freed_at_end_json(const Report& report) {
  Json list = Json::array();
  for (const Breakdown& breakdown : report.freed_at_end) {
    Json one;
    if (!report.job.empty()) one["process"] = breakdown.process;
    one["device"] = device_json(breakdown.device);
    one["time_ns"] = breakdown.time_ns;
    one["bytes"] = breakdown.live_bytes;
    one["count"] = breakdown.live_count;
    one["stacks"] = entries_json(breakdown);
    list.push_back(std::move(one));
  }
  return list;
}

Json breakdowns_json(const Report& report) {
  Json list = Json::array();
  for (const Breakdown& breakdown : report.breakdowns) {
    Json one = moment_json(report, breakdown);
    one["reason"] = breakdown.out_of_memory ? "out-of-memory" : "peak";
    one["live_allocations"] = breakdown.live_count;
    one["stacks"] = entries_json(breakdown);
    one["others"] = {
        {"bytes", breakdown.other_bytes}, {"count", breakdown.other_count}, {"stacks", breakdown.other_stacks}};
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

namespace {

Json audit_json(const Audit& audit) {
  Json one = {{"calls", audited_calls(audit)}, {"functions", audit.functions.size()}};
  const std::string why = why_no_audit(audit);
  one["problem"] = why.empty() ? Json() : Json(why);
  if (audit.not_audited != 0) one["not_audited"] = audit.not_audited;
  one["by_function"] = Json::array();
  for (const AuditedFunction& function : audit.functions)
    one["by_function"].push_back({{"api", function.api}, {"calls", function.calls}});
  one["not_recorded"] = Json::array();
  for (const NotRecordedCalls& calls : audit.not_recorded) {
    one["not_recorded"].push_back({{"api", calls.api},
                                   {"count", calls.count},
                                   {"bytes", calls.bytes},
                                   {"stack", calls.stack == nullptr ? Json::array() : stack_json(calls.stack)}});
  }
  return one;
}

}  // namespace

Json keeper_json(const Keeper& keeper) {
  return {{"kind", keeper_kind_name(keeper.kind)},
          {"path", keeper.path},
          {"bytes", keeper.bytes},
          {"count", keeper.count},
          {"hint", keeper.hint.empty() ? Json() : Json(keeper.hint)},
          {"suppressed", keeper.suppressed},
          {"id", keeper.id}};
}

Json growth_json(const std::vector<GrownKeeper>& keepers) {
  Json list = Json::array();
  for (const GrownKeeper& grown : keepers) {
    Json one = keeper_json(grown.keeper);
    one["bytes"] = grown.now;
    one["bytes_before"] = grown.before;
    one["grown_bytes"] = grown.growth();
    list.push_back(std::move(one));
  }
  return list;
}

Json inside_json(const CacheInside& inside) {
  Json one = {{"taken", inside.taken}, {"live_bytes", inside.live_bytes}, {"idle_bytes", inside.idle_bytes}};
  one["segments"] = Json::array();
  for (const CacheInside::Segment& segment : inside.segments) {
    one["segments"].push_back({{"address", hex_text(segment.address)},
                               {"bytes", segment.bytes},
                               {"live_bytes", segment.live_bytes},
                               {"idle_bytes", segment.bytes - segment.live_bytes}});
  }
  one["largest"] = Json::array();
  for (const CacheInside::Place& place : inside.largest) {
    one["largest"].push_back({{"bytes", place.bytes},
                              {"count", place.count},
                              {"file", place.file.empty() ? Json() : Json(place.file)},
                              {"line", place.file.empty() ? Json() : Json(place.line)},
                              {"function", place.file.empty() ? Json() : Json(place.function)},
                              {"held_by", place.held_by.empty() ? Json() : Json(place.held_by)}});
  }
  one["kept"] = Json::array();
  for (const Keeper& keeper : inside.kept) {
    one["kept"].push_back(keeper_json(keeper));
  }
  return one;
}

Json report_head_json(const Report& report) {
  Json head;
  head["dump"] = report.dump_path;
  head["process"] = process_json(report.process);
  if (!report.job.empty()) head["processes"] = job_json(report);
  head["devices"] = devices_json(report);
  head["summary"] = summary_json(report);
  if (!report.breakdowns.empty()) head["pictures"] = breakdowns_json(report);
  if (!report.freed_at_end.empty()) head["freed_at_end"] = freed_at_end_json(report);
  Json failures = out_of_memory_json(report);
  if (!failures.empty()) head["out_of_memory"] = std::move(failures);
  if (!report.balances.empty()) head["balances"] = balances_json(report);
  if (!report.call_charges.empty()) head["bills"] = call_charges_json(report);
  head["contexts"] = contexts_json(report);
  if (!report.overwritten.empty()) head["overwritten"] = overwritten_json(report);
  if (!report.shared.empty()) head["shared"] = shared_json(report);
  if (!report.suppressed.empty()) head["suppressed"] = suppressed_json(report);
  if (report.filtered) head["filtered"] = hidden_json(*report.filtered);
  if (report.baseline) head["baseline"] = baseline_json(*report.baseline);
  if (report.snapshot_ns != 0) head["snapshot_ns"] = report.snapshot_ns;
  if (!report.marks.empty()) head["marks"] = marks_json(report);
  if (!report.marked.empty()) head["marks_with_bytes"] = marks_with_bytes_json(report);
  if (!report.since_mark.asked.empty()) head["since_mark"] = bound_json(report.since_mark);
  if (!report.before_mark.asked.empty()) head["before_mark"] = bound_json(report.before_mark);
  if (!report.recording.spans.empty() || report.recording.off) head["recording"] = recording_json(report);
  head["unseen"] = Json::array();
  for (const UnseenUser& user : report.unseen)
    head["unseen"].push_back({{"module", user.path},
                              {"how", user.surplus_driver ? "driver"
                                      : user.own_driver   ? "namespace"
                                                          : "direct"}});
  if (report.audit.state != format::AuditState::kNotAsked) head["audit"] = audit_json(report.audit);
  head["holder_search"] = holder_search_json(report.holder_search);
  head["findings"] = findings_json(report, findings_of(report));
  head["answers"] = answer_links(report);
  return head;
}

Json summary_of_all(const std::vector<Report>& reports, bool nothing_known) {
  Json all = summary_json(Report());
  all["not_known"] = Json::array();
  bool complete = !nothing_known, leaks = false, known = !nothing_known;
  for (const Report& report : reports) {
    const Json one = summary_json(report);
    for (const auto& [name, value] : one.items()) {
      if (value.is_number_unsigned()) all[name] = all[name].get<std::uint64_t>() + value.get<std::uint64_t>();
    }
    for (const std::string& reason : reasons_not_known(report)) all["not_known"].push_back(reason);
    for (const char* text : {"not_searched", "stop_reason"}) {
      if (all[text].is_null()) all[text] = one[text];
    }
    const Verdict verdict = verdict_of(report);
    complete = complete && is_complete(report);
    leaks = leaks || verdict == Verdict::kLeaks;
    known = known && verdict != Verdict::kNotKnown;
  }
  all["complete"] = complete;
  all["verdict"] = verdict_name(!known ? Verdict::kNotKnown : leaks ? Verdict::kLeaks : Verdict::kClean);
  // These have no sum: they are in the summary of each report.
  for (const char* name : {"caches", "ran_out", "totals"}) all.erase(name);
  return all;
}

}  // namespace culprit::report
