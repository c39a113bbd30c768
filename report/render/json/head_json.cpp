#include "report/render/json/head_json.h"

#include <nlohmann/json.hpp>

#include "report/base/words.h"
#include "report/cuda/kinds.h"
#include "report/fields/report_fields.h"
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
#include "report/render/json/json_fields.h"

namespace culprit::report {
namespace {

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
  (*one)["file"] = json_or_null(frame.file);
  (*one)["line"] = frame.file.empty() ? Json() : Json(frame.line);
  (*one)["function"] = json_or_null(frame.function);
}

Json line_json(const HolderLine& line) {
  Json one = {
      {"what", name_of(line.what)}, {"bytes", line.bytes}, {"count", line.count}, {"pool", json_or_null(line.pool)}};
  if (line.what == LineOf::kTensors) {
    one["file"] = json_or_null(line.file);
    one["line"] = line.file.empty() ? Json() : Json(line.line);
    one["function"] = json_or_null(line.function);
    one["held_by"] = json_or_null(line.held_by);
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

// NVML's answer about the device; null where it was not asked.
void add_charges(const Breakdown& breakdown, const FieldContext& context, Json* one) {
  (*one)["nvml"] = Json();
  (*one)["other_processes"] = Json();
  for (const GpuCharges& charges : breakdown.charges) {
    (*one)["nvml"] = json_of(charges, context, stack_json);
    if (charges.problem.empty()) (*one)["other_processes"] = json_of(charges.others, context, stack_json);
  }
}

FieldContext context_of(const Report& report) {
  FieldContext context;
  context.report = &report;
  context.of_job = !report.job.empty();
  return context;
}

// The balance of that moment.
Json items_json(const Balance* balance) { return json_of(ShownItems{balance}, {}, stack_json); }

Json out_of_memory_json(const Report& report) {
  Json list = Json::array();
  const Explainer explainer(report);
  const FieldContext context = context_of(report);
  const StackToJson frames = stack_json;
  for (const Breakdown& breakdown : report.breakdowns) {
    if (!breakdown.out_of_memory) continue;
    const OutOfMemory failure = explainer.explain(breakdown);
    Json one;
    JsonFields moment(context, frames, &one);
    moment_fields(moment, const_cast<Breakdown*>(&breakdown));  // the list is shared with reading
    one["lines"] = Json::array();
    for (const HolderLine& line : failure.lines) one["lines"].push_back(line_json(line));
    one["other_bytes"] = breakdown.other_bytes;
    one["idle"] = Json::array();
    for (const IdleMemory& idle : failure.idle) one["idle"].push_back(idle_json(idle));
    one["other_processes_at_most_bytes"] = failure.balance == nullptr ? Json() : Json(failure.others_at_most);
    add_charges(breakdown, context, &one);
    one["balance"] = items_json(failure.balance);
    one["missing_bytes"] = failure.missing;
    one["would_fit"] = {{"rule", failure.rule}, {"text", failure.would_fit}};
    list.push_back(std::move(one));
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

Json freed_at_end_json(const Report& report) {
  Json list = Json::array();
  for (const Breakdown& breakdown : report.freed_at_end) {
    Json one;
    if (!report.job.empty()) one["process"] = breakdown.process;
    one["device"] = device_json(breakdown.device);
    one["time_ns"] = breakdown.time_ns;
    one["bytes"] = breakdown.live_bytes;
    one["count"] = breakdown.live_count;
    one["stacks"] = json_of(breakdown.entries, {}, stack_json);
    list.push_back(std::move(one));
  }
  return list;
}

Json part_json(Part part, const Report& report) {
  switch (part) {
    case Part::kSummary:
      return summary_json(report);
    case Part::kFreedAtEnd:
      return freed_at_end_json(report);
    case Part::kOutOfMemory:
      return out_of_memory_json(report);
    case Part::kShared:
      return shared_json(report);
    case Part::kSuppressed:
      return suppressed_json(report);
    case Part::kFiltered:
      return hidden_json(*report.filtered);
    case Part::kBaseline:
      return baseline_json(*report.baseline);
    case Part::kMarksWithBytes:
      return marks_with_bytes_json(report);
    case Part::kSinceMark:
      return bound_json(report.since_mark);
    case Part::kBeforeMark:
      return bound_json(report.before_mark);
    case Part::kRecording:
      return recording_json(report);
    case Part::kFindingList:
      return findings_json(report, findings_of(report));
    case Part::kAnswers:
      return answer_links(report);
  }
  return Json();
}

}  // namespace

Json keeper_json(const Keeper& keeper) { return json_of(keeper, {}, stack_json); }

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

Json inside_json(const CacheInside& inside) { return json_of(inside, {}, stack_json); }

void write_value(const ShownTimeLine& shown, const FieldContext&, const StackToJson&, Json* json) {
  const TimeLine& line = shown.device->time_line;
  if (line.buckets.empty()) return;
  *json = {{"bucket_ns", line.bucket_ns}, {"peak_bytes", line.peak_bytes}, {"peak_ns", line.peak_ns}};
}

void write_value(const ShownItems& shown, const FieldContext&, const StackToJson&, Json* json) {
  *json = Json::array();
  if (shown.balance == nullptr) return;
  for (const BalanceItem& item : shown.balance->items) {
    Json one = json_of(item, {}, stack_json);
    const ExecutableUse& use = shown.balance->executables;
    if (item.what == BalancePart::kGraphExecutables && use.known) one.update(json_of(use, {}, stack_json));
    json->push_back(std::move(one));
  }
}

void write_value(const ShownPart& shown, const FieldContext& context, const StackToJson&, Json* json) {
  *json = part_json(shown.part, *context.report);
}

Json report_head_json(const Report& report) { return json_of(report, context_of(report), stack_json); }

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
