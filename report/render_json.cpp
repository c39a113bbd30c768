#include <cinttypes>
#include <cstdio>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "report/baseline.h"
#include "report/evidence_text.h"
#include "report/hints.h"
#include "report/kinds.h"
#include "report/parallel.h"
#include "report/render.h"
#include "report/report_json.h"
#include "report/spread.h"

namespace culprit {
namespace {

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

Json device_json(const std::optional<unsigned>& device) { return device ? Json(*device) : Json(); }

Json frame_json(const Frame& frame) {
  Json one;
  one["function"] = frame.function;
  one["file"] = frame.file;
  one["line"] = frame.line;
  one["module"] = frame.module != nullptr ? frame.module->path : "";
  one["offset"] = hex(frame.offset);
  one["inlined"] = frame.inlined;
  one["language"] = frame.python ? "python" : "native";
  if (frame.symbol_offset != 0) one["symbol_offset"] = frame.symbol_offset;
  if (frame.approximate) one["approximate"] = true;
  return one;
}

Json stack_json(const ResolvedStack* stack) {
  Json list = Json::array();
  if (stack == nullptr) return list;
  for (const Frame* frame : stack->frames) list.push_back(frame_json(*frame));
  return list;
}

Json thread_json(const ThreadInfo& thread) {
  return {{"tid", thread.tid}, {"name", thread.name}, {"ended", thread.ended}};
}

Json held_json(const Evidence& evidence, Json one) {
  const Variable& variable = *evidence.variable;
  one["symbol"] = variable.name.empty() ? Json() : Json(variable.name);
  one["symbol_offset"] = variable.name.empty() ? Json() : Json(evidence.offset - variable.begin);
  one["module"] = variable.python ? Json() : Json(variable.module->path);
  one["language"] = variable.python ? "python" : "native";
  one["offset"] = hex(evidence.offset);
  one["count"] = evidence.count;
  return one;
}

Json exception_json(const Evidence& evidence, Json one) {
  one["exception"] = evidence.exception.empty() ? Json() : Json(evidence.exception);
  one["what"] = evidence.what.empty() ? Json() : Json(evidence.what);
  one["caught"] = evidence.caught != nullptr;
  one["uncaught"] = evidence.uncaught;
  one["rethrown"] = evidence.rethrown;
  one["forced"] = evidence.forced;
  one["ambiguous"] = evidence.ambiguous;
  return one;
}

Json failed_call_json(const Evidence& evidence, Json one) {
  one["api"] = evidence.api;
  one["code"] = evidence.code;
  one["code_name"] = evidence.code_name;
  one["injected"] = evidence.injected;
  one["bytes"] = evidence.bytes;
  return one;
}

// What struck the memory while its owner was running.
Json struck_json(const Evidence& evidence, Json one) {
  one["owner"] = evidence.owner != nullptr ? Json(evidence.owner->function) : Json();
  one["thread"] = evidence.thread ? thread_json(*evidence.thread) : Json();
  return one;
}

Json inside_json(const CacheInside& inside) {
  Json one = {{"taken", inside.at_exit ? "exit" : "snapshot"},
              {"live_bytes", inside.live_bytes},
              {"idle_bytes", inside.idle_bytes}};
  one["segments"] = Json::array();
  for (const CacheInside::Segment& segment : inside.segments) {
    one["segments"].push_back({{"address", hex(segment.address)},
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
  return one;
}

Json evidence_json(const Evidence& evidence, const StackToJson& stack_to_json) {
  Json one;
  one["type"] = evidence_name(evidence.type);
  switch (evidence.type) {
    case EvidenceType::kHeld:
      return held_json(evidence, std::move(one));
    case EvidenceType::kThreadEnded:
      one["tid"] = evidence.thread->tid;
      one["name"] = evidence.thread->name;
      one["time_ns"] = evidence.time_ns;
      return one;
    case EvidenceType::kFailedFree:
      one["api"] = evidence.api;
      one["code"] = evidence.code;
      one["code_name"] = evidence.code_name;
      one["handle"] = hex(evidence.handle);
      break;
    case EvidenceType::kContextTeardown:
      one["api"] = evidence.api;
      break;
    case EvidenceType::kException:
      one = struck_json(evidence, exception_json(evidence, std::move(one)));
      break;
    case EvidenceType::kErrorReturn:
      one = struck_json(evidence, failed_call_json(evidence, std::move(one)));
      break;
  }
  one["count"] = evidence.count;
  if (evidence.first_ns != 0) one["first_ns"] = evidence.first_ns;
  one["time_ns"] = evidence.time_ns;
  one["stack"] = stack_to_json(evidence.stack);
  if (evidence.type == EvidenceType::kException) one["caught_stack"] = stack_to_json(evidence.caught);
  return one;
}

// Which processes (indices into "processes") have how much: a job's ranks are most often alike.
Json spread_json(const Group& group) {
  const Spread spread = spread_of(group, 0);
  std::map<std::pair<std::uint64_t, std::uint64_t>, Json> amounts;
  for (const Share& share : group.shares) amounts[{share.bytes, share.count}].push_back(share.process);
  Json one = {{"processes", group.shares.size()}, {"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
  one["amounts"] = Json::array();
  for (auto& [amount, processes] : amounts)
    one["amounts"].push_back({{"bytes", amount.first}, {"count", amount.second}, {"processes", std::move(processes)}});
  return one;
}

}  // namespace

Json group_json(const Group& group, bool running, const StackToJson& stack_to_json) {
  Json one;
  one["id"] = group.id;
  one["kind"] = kind_name(group.kind);
  one["api"] = group.api;
  one["driver_api"] = group.driver_api;
  one["bytes"] = group.bytes;
  one["count"] = group.count;
  one["device"] = device_json(group.device);
  one["cause"] = cause_name(group.cause);
  if (group.pool != nullptr) one["pool"] = group.pool->name;
  if (!group.library.empty()) one["library"] = group.library;
  if (group.comparison != Comparison::kNone) {
    const bool known = group.comparison != Comparison::kNew;
    one["baseline"] = {{"state", comparison_name(group.comparison)},
                       {"bytes", known ? Json(group.baseline_bytes) : Json()}};
  }
  one["evidence"] = Json::array();
  for (const Evidence& evidence : group.evidence) one["evidence"].push_back(evidence_json(evidence, stack_to_json));
  if (group.kind == format::Kind::kVmmPhysical) {
    one["evidence"].push_back(
        {{"type", "vmm"}, {"mappings", group.mappings}, {"handle_references", group.handle_references}});
  }
  one["threads"] = Json::array();
  for (const ThreadInfo& thread : group.threads) one["threads"].push_back(thread_json(thread));
  if (!group.marks.empty()) {
    one["marks"] = Json::array();
    for (const MarkShare& share : group.marks) {
      one["marks"].push_back({{"mark", share.mark.empty() ? Json() : Json(share.mark)},
                              {"range", share.range.empty() ? Json() : Json(share.range)},
                              {"bytes", share.bytes},
                              {"count", share.count}});
    }
  }
  one["first_ns"] = group.first_ns;
  one["last_ns"] = group.last_ns;
  one["made"] = group.made != 0 ? group.made : group.count;
  one["freed"] = group.freed;
  const std::string history = history_text(group);
  one["history"] = history.empty() ? Json() : Json(history);
  const std::string hint = hint_for(group, running);
  one["hint"] = hint.empty() ? Json() : Json(hint);
  one["handles"] = Json::array();
  for (std::uint64_t handle : group.handles) one["handles"].push_back(hex(handle));
  if (!group.shares.empty()) {
    one["devices"] = group.devices;
    one["spread"] = spread_json(group);
  }
  return one;
}

Json error_json(const ErrorGroup& error, const StackToJson& stack_to_json) {
  Json one;
  one["type"] = error_type_name(error.type);
  one["api"] = error.api;
  one["driver_api"] = error.driver_api;
  one["code"] = error.code;
  one["code_name"] = error.code_name;
  one["kind"] = error.kind == format::Kind::kNone ? Json() : Json(kind_name(error.kind));
  one["handle"] = hex(error.handle);
  one["allocation_handle"] = error.allocation_handle != 0 ? Json(hex(error.allocation_handle)) : Json();
  one["bytes"] = error.bytes;
  one["count"] = error.count;
  one["device"] = device_json(error.device);
  one["thread"] = error.thread ? thread_json(*error.thread) : Json();
  one["first_ns"] = error.first_ns;
  one["last_ns"] = error.last_ns;
  one["stack"] = stack_to_json(error.stack);
  one["allocation_stack"] = stack_to_json(error.allocation_stack);
  one["free_stack"] = stack_to_json(error.free_stack);
  if (error.free_thread) one["free_thread"] = thread_json(*error.free_thread);
  return one;
}

namespace {

Json reading_json(const format::MemoryReading& reading) {
  if (reading.total_bytes == 0) return Json();
  return {{"time_ns", reading.time_ns}, {"free_bytes", reading.free_bytes}, {"total_bytes", reading.total_bytes}};
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
  if (process.attached) {
    one["attached"] = *process.attached;
    one["detached"] = process.status.detached;
  }
  one["start_realtime_ns"] = process.start_realtime_ns;
  one["end_time_ns"] = process.end_time_ns;
  one["driver_version"] = process.driver_version;
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
                    {"leaked_bytes", process.leaked_bytes},
                    {"leaked_allocations", process.leaked_allocations}});
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
  one["errors"] = summary.errors;
  one["dropped"] = report.dropped.total();
  one["leaked_device_bytes"] = summary.leaked_device_bytes;
  one["leaked_host_bytes"] = summary.leaked_host_bytes;
  one["library_bytes"] = summary.library_bytes;
  one["library_allocations"] = summary.library_allocations;
  one["resources"] = summary.resources;
  one["thread_ended_bytes"] = summary.thread_ended_bytes;
  one["late_frees"] = summary.late_frees;
  one["unknown_frees"] = summary.unknown_frees;
  one["allocations"] = summary.allocations;
  one["frees"] = summary.frees;
  one["stacks_verified"] = summary.stacks_verified;
  one["stack_mismatches"] = summary.stack_mismatches;
  one["contexts_verified"] = summary.contexts_verified;
  one["context_mismatches"] = summary.context_mismatches;
  one["dropped_allocations"] = report.dropped.allocations;
  one["dropped_stacks"] = report.dropped.stacks;
  one["dropped_others"] = report.dropped.others;
  one["stop_reason"] = report.dropped.reason.empty() ? Json() : Json(report.dropped.reason);
  one["caches"] = Json::array();
  for (const CacheTotal& cache : summary.caches) {
    Json total = {{"pool", cache.pool->name}, {"bytes", cache.bytes}, {"segments", cache.segments}};
    for (const CacheInside& inside : report.caches_inside) {
      if (inside.pool == cache.pool->name) total["inside"] = inside_json(inside);
    }
    one["caches"].push_back(std::move(total));
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
  return {{"file", baseline.path},
          {"new", baseline.added},
          {"grown", baseline.grown},
          {"known", baseline.known},
          {"gone", baseline.gone}};
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
  one["last_switch_ns"] = report.recording.last_switch_ns;
  one["process_age_ns"] = report.recording.process_age_ns;
  one["spans"] = Json::array();
  for (const RecordedSpan& span : report.recording.spans) {
    one["spans"].push_back({{"begin_ns", span.begin_ns},
                            {"end_ns", span.end_ns == 0 ? Json() : Json(span.end_ns)},
                            {"device", device_json(span.device)},
                            {"used_bytes", span.device ? Json(span.used_bytes) : Json()},
                            {"total_bytes", span.device ? Json(span.total_bytes) : Json()}});
  }
  return one;
}

// The modules that the stacks pass through, each once: which build of them it was.
Json modules_json(const Report& report) {
  std::map<std::string, const Module*> modules;
  std::unordered_set<const Module*> seen;
  auto add = [&](const ResolvedStack* stack) {
    if (stack == nullptr) return;
    for (const Frame* frame : stack->frames) {
      if (frame->module != nullptr && seen.insert(frame->module).second) {
        modules.emplace(frame->module->path, frame->module);
      }
    }
  };
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    for (const Group& group : *groups) {
      add(group.stack);
      for (const Evidence& evidence : group.evidence) {
        add(evidence.stack);
        add(evidence.caught);
        if (evidence.variable != nullptr && !evidence.variable->python)
          modules.emplace(evidence.variable->module->path, evidence.variable->module);
      }
    }
  }
  for (const ErrorGroup& error : report.errors) add(error.stack);
  Json list = Json::array();
  for (const auto& [path, module] : modules) list.push_back({{"path", path}, {"build_id", module->build_id}});
  return list;
}

Json time_line_json(const TimeLine& line) {
  if (line.buckets.empty()) return Json();
  return {{"bucket_ns", line.bucket_ns}, {"peak_bytes", line.peak_bytes}, {"peak_ns", line.peak_ns}};
}

Json devices_json(const Report& report) {
  Json list = Json::array();
  for (const DeviceInfo& device : report.devices) {
    list.push_back({{"ordinal", device.ordinal},
                    {"uuid", device.uuid},
                    {"name", device.name},
                    {"mig", device.mig},
                    {"memory",
                     {{"first", reading_json(device.first)},
                      {"peak", reading_json(device.peak)},
                      {"exit", reading_json(device.exit)}}},
                    {"live_bytes", device.live_bytes},
                    {"peak_live_bytes", device.peak_live_bytes},
                    {"pool_reserved_bytes", device.pool_reserved},
                    {"pool_used_bytes", device.pool_used},
                    {"time_line", time_line_json(device.time_line)}});
  }
  return list;
}

Json holder_search_json(const HolderSearchInfo& search) {
  return {{"state", holder_search_name(search.state)}, {"time_ns", search.ns}, {"bytes", search.bytes}};
}

Json errors_json(const Report& report) {
  Json list = Json::array();
  for (const ErrorGroup& error : report.errors) list.push_back(error_json(error, stack_json));
  return list;
}

Json pictures_json(const Report& report) {
  Json list = Json::array();
  for (const Picture& picture : report.pictures) {
    Json one;
    one["reason"] = picture.out_of_memory ? "out-of-memory" : "peak";
    one["device"] = device_json(picture.device);
    one["time_ns"] = picture.time_ns;
    if (picture.out_of_memory) {
      one["api"] = picture.api;
      one["asked_bytes"] = picture.asked_bytes;
      one["times"] = picture.times;
      one["stack"] = stack_json(picture.stack);
    }
    one["memory"] = reading_json(picture.memory);
    one["live_bytes"] = picture.live_bytes;
    one["live_allocations"] = picture.live_count;
    one["stacks"] = Json::array();
    for (const PictureEntry& entry : picture.entries) {
      one["stacks"].push_back({{"api", entry.api},
                               {"kind", kind_name(entry.kind)},
                               {"bytes", entry.bytes},
                               {"count", entry.count},
                               {"stack", stack_json(entry.stack)}});
    }
    one["others"] = {{"bytes", picture.other_bytes}, {"count", picture.other_count}, {"stacks", picture.other_stacks}};
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

Json report_head_json(const Report& report) {
  Json head;
  head["dump"] = report.dump_path;
  head["process"] = process_json(report.process);
  if (!report.job.empty()) head["processes"] = job_json(report);
  head["devices"] = devices_json(report);
  head["summary"] = summary_json(report);
  if (!report.pictures.empty()) head["pictures"] = pictures_json(report);
  if (!report.suppressed.empty()) head["suppressed"] = suppressed_json(report);
  if (report.filtered) head["filtered"] = hidden_json(*report.filtered);
  if (report.baseline) head["baseline"] = baseline_json(*report.baseline);
  if (report.snapshot_ns != 0) head["snapshot_ns"] = report.snapshot_ns;
  if (!report.marks.empty()) head["marks"] = marks_json(report);
  if (!report.since_mark.empty()) {
    head["since_mark"] = {{"name", report.since_mark},
                          {"time_ns", report.since_mark_ns ? Json(*report.since_mark_ns) : Json()}};
  }
  if (!report.recording.spans.empty() || report.recording.off) head["recording"] = recording_json(report);
  head["holder_search"] = holder_search_json(report.holder_search);
  return head;
}

namespace {

// The text of a value whose first line is indented already.
std::string text_of(const Json& value, std::size_t indent) {
  std::string text = value.dump(2, ' ', false, Json::error_handler_t::replace);
  if (indent == 0) return text;
  std::string indented;
  indented.reserve(text.size() * 2);
  for (const char c : text) {
    indented += c;
    // Inside of strings a new line is written as \n.
    if (c == '\n') indented.append(indent, ' ');
  }
  return indented;
}

// Writes the groups of one list. Few frames stand in many stacks: each is made into text once. Not thread-safe.
class GroupWriter {
 public:
  // `indent`: of the group's opening brace.
  GroupWriter(bool running, std::size_t indent) : running_(running), indent_(indent) {}

  void write(const Group& group, std::string* out) {
    out->append(indent_, ' ');
    *out += text_of(group_json(group, running_, stack_json), indent_);
    out->resize(out->size() - 2 - indent_);  // the closing brace and its line: more is to come
    *out += ",\n";
    out->append(indent_ + 2, ' ');
    *out += "\"stack\": [";
    bool first = true;
    for (const Frame* frame : group.stack->frames) {
      *out += first ? "\n" : ",\n";
      *out += text_of_frame(frame);
      first = false;
    }
    if (!first) {
      *out += '\n';
      out->append(indent_ + 2, ' ');
    }
    *out += "],\n";
    out->append(indent_ + 2, ' ');
    *out += group.stack->truncated ? "\"stack_truncated\": true\n" : "\"stack_truncated\": false\n";
    out->append(indent_, ' ');
    *out += '}';
  }

 private:
  const std::string& text_of_frame(const Frame* frame) {
    const auto [at, added] = frames_.try_emplace(frame);
    if (added) at->second = std::string(indent_ + 4, ' ') + text_of(frame_json(*frame), indent_ + 4);
    return at->second;
  }

  bool running_;
  std::size_t indent_;
  std::unordered_map<const Frame*, std::string> frames_;
};

// Writes one report member by member: a hundred thousand groups as one document would need gigabytes.
class ReportWriter {
 public:
  // `indent`: of the report's opening brace, which the caller has indented.
  ReportWriter(const Report& report, std::size_t indent, std::ostream& out)
      : report_(report), indent_(indent), out_(out) {}

  void write() {
    out_ << "{\n";
    member("schema", "culprit.report/1");
    const Json head = report_head_json(report_);
    for (const auto& [key, value] : head.items()) member(key, value);
    groups("leaks", report_.leaks);
    groups("library", report_.library);
    groups("resources", report_.resources);
    member("errors", errors_json(report_));
    member("modules", modules_json(report_));
    member("notes", report_.notes, true);
    out_ << std::string(indent_, ' ') << "}";
  }

 private:
  void name(const std::string& name) { out_ << std::string(indent_ + 2, ' ') << '"' << name << "\": "; }

  void member(const std::string& key, const Json& value, bool last = false) {
    name(key);
    out_ << text_of(value, indent_ + 2) << (last ? "\n" : ",\n");
  }

  void groups(const char* key, const std::vector<Group>& list) {
    name(key);
    if (list.empty()) {
      out_ << "[],\n";
      return;
    }
    out_ << "[\n";
    const bool running = report_.process.status.ended == Ended::kRunning;
    write_in_order(list.size(), out_, [&] {
      return [&, writer = GroupWriter(running, indent_ + 4)](std::size_t i, std::string* text) mutable {
        writer.write(list[i], text);
        *text += i + 1 < list.size() ? ",\n" : "\n";
      };
    });
    out_ << std::string(indent_ + 2, ' ') << "],\n";
  }

  const Report& report_;
  std::size_t indent_;
  std::ostream& out_;
};

}  // namespace

void render_json(const std::vector<Report>& reports, std::ostream& out) {
  if (reports.size() == 1) {
    ReportWriter(reports.front(), 0, out).write();
    out << '\n';
    return;
  }
  out << "{\n  \"schema\": \"culprit.reports/1\",\n  \"reports\": [";
  bool first = true;
  for (const Report& report : reports) {
    out << (first ? "\n    " : ",\n    ");
    ReportWriter(report, 4, out).write();
    first = false;
  }
  out << (first ? "]\n}\n" : "\n  ]\n}\n");
}

std::string group_as_json(const Group& group) {
  std::string text;
  GroupWriter(false, 0).write(group, &text);
  return text;
}

std::string error_as_json(const ErrorGroup& error) { return text_of(error_json(error, stack_json), 0); }

std::string stack_as_json(const ResolvedStack& stack) { return text_of(stack_json(&stack), 0); }

}  // namespace culprit
