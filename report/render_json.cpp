#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "report/evidence_text.h"
#include "report/hints.h"
#include "report/kinds.h"
#include "report/render.h"

namespace culprit {
namespace {

using Json = nlohmann::ordered_json;

std::string hex(std::uint64_t value) {
  char text[20];
  std::snprintf(text, sizeof(text), "0x%" PRIx64, value);
  return text;
}

Json device_json(const std::optional<unsigned>& device) { return device ? Json(*device) : Json(); }

Json stack_json(const ResolvedStack* stack) {
  Json list = Json::array();
  if (stack == nullptr) return list;
  for (const Frame* frame : stack->frames) {
    Json one;
    one["function"] = frame->function;
    one["file"] = frame->file;
    one["line"] = frame->line;
    one["module"] = frame->module != nullptr ? frame->module->path : "";
    one["offset"] = hex(frame->offset);
    one["inlined"] = frame->inlined;
    one["language"] = "native";
    if (frame->symbol_offset != 0) one["symbol_offset"] = frame->symbol_offset;
    if (frame->approximate) one["approximate"] = true;
    list.push_back(std::move(one));
  }
  return list;
}

Json thread_json(const ThreadInfo& thread) {
  return {{"tid", thread.tid}, {"name", thread.name}, {"ended", thread.ended}};
}

Json held_json(const Evidence& evidence, Json one) {
  const Variable& variable = *evidence.variable;
  one["symbol"] = variable.name.empty() ? Json() : Json(variable.name);
  one["symbol_offset"] = variable.name.empty() ? Json() : Json(evidence.offset - variable.begin);
  one["module"] = variable.module->path;
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

Json evidence_json(const Evidence& evidence) {
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
  one["time_ns"] = evidence.time_ns;
  one["stack"] = stack_json(evidence.stack);
  if (evidence.type == EvidenceType::kException) one["caught_stack"] = stack_json(evidence.caught);
  return one;
}

Json group_json(const Group& group, bool running) {
  Json one;
  one["id"] = group.id;
  one["kind"] = kind_name(group.kind);
  one["api"] = group.api;
  one["driver_api"] = group.driver_api;
  one["bytes"] = group.bytes;
  one["count"] = group.count;
  one["device"] = device_json(group.device);
  one["cause"] = cause_name(group.cause);
  if (!group.library.empty()) one["library"] = group.library;
  one["evidence"] = Json::array();
  for (const Evidence& evidence : group.evidence) one["evidence"].push_back(evidence_json(evidence));
  if (group.kind == format::Kind::kVmmPhysical) {
    one["evidence"].push_back(
        {{"type", "vmm"}, {"mappings", group.mappings}, {"handle_references", group.handle_references}});
  }
  one["threads"] = Json::array();
  for (const ThreadInfo& thread : group.threads) one["threads"].push_back(thread_json(thread));
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
  one["stack"] = stack_json(group.stack);
  one["stack_truncated"] = group.stack->truncated;
  return one;
}

Json groups_json(const std::vector<Group>& groups, bool running) {
  Json list = Json::array();
  for (const Group& group : groups) list.push_back(group_json(group, running));
  return list;
}

Json error_json(const ErrorGroup& error) {
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
  one["stack"] = stack_json(error.stack);
  one["allocation_stack"] = stack_json(error.allocation_stack);
  one["free_stack"] = stack_json(error.free_stack);
  if (error.free_thread) one["free_thread"] = thread_json(*error.free_thread);
  return one;
}

Json reading_json(const format::MemoryReading& reading) {
  if (reading.total_bytes == 0) return Json();
  return {{"time_ns", reading.time_ns}, {"free_bytes", reading.free_bytes}, {"total_bytes", reading.total_bytes}};
}

Json process_json(const ProcessInfo& process) {
  Json one;
  one["pid"] = process.pid;
  one["parent_pid"] = process.parent_pid;
  one["host"] = process.host;
  one["rank"] = Json();
  one["exe"] = process.executable;
  one["command"] = process.command;
  one["working_directory"] = process.working_directory;
  one["ended"] = ended_name(process.status.ended);
  one["exit_status"] = process.status.ended == Ended::kExit ? Json(process.status.exit_status) : Json();
  one["start_realtime_ns"] = process.start_realtime_ns;
  one["end_time_ns"] = process.end_time_ns;
  one["driver_version"] = process.driver_version;
  one["libculprit_version"] = process.tool_version;
  return one;
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
  one["dropped_allocations"] = report.dropped.allocations;
  one["dropped_stacks"] = report.dropped.stacks;
  one["dropped_others"] = report.dropped.others;
  one["stop_reason"] = report.dropped.reason.empty() ? Json() : Json(report.dropped.reason);
  one["totals"] = Json::array();
  for (const Total& total : summary.totals) {
    one["totals"].push_back({{"device", device_json(total.device)},
                             {"kind", kind_name(total.kind)},
                             {"bytes", total.bytes},
                             {"count", total.count}});
  }
  return one;
}

// The modules that the stacks pass through, each once: which build of them it was.
Json modules_json(const Report& report) {
  std::map<std::string, const Module*> modules;
  auto add = [&](const ResolvedStack* stack) {
    if (stack == nullptr) return;
    for (const Frame* frame : stack->frames) {
      if (frame->module != nullptr) modules.emplace(frame->module->path, frame->module);
    }
  };
  for (const std::vector<Group>* groups : {&report.leaks, &report.library, &report.resources}) {
    for (const Group& group : *groups) {
      add(group.stack);
      for (const Evidence& evidence : group.evidence) {
        add(evidence.stack);
        add(evidence.caught);
        if (evidence.variable != nullptr) modules.emplace(evidence.variable->module->path, evidence.variable->module);
      }
    }
  }
  for (const ErrorGroup& error : report.errors) add(error.stack);
  Json list = Json::array();
  for (const auto& [path, module] : modules) list.push_back({{"path", path}, {"build_id", module->build_id}});
  return list;
}

Json report_json(const Report& report) {
  Json one;
  one["schema"] = "culprit.report/1";
  one["dump"] = report.dump_path;
  one["process"] = process_json(report.process);
  one["devices"] = Json::array();
  for (const DeviceInfo& device : report.devices) {
    one["devices"].push_back({{"ordinal", device.ordinal},
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
                              {"pool_used_bytes", device.pool_used}});
  }
  one["summary"] = summary_json(report);
  const bool running = report.process.status.ended == Ended::kRunning;
  one["holder_search"] = {{"state", holder_search_name(report.holder_search.state)},
                          {"time_ns", report.holder_search.ns},
                          {"bytes", report.holder_search.bytes}};
  one["leaks"] = groups_json(report.leaks, running);
  one["library"] = groups_json(report.library, running);
  one["resources"] = groups_json(report.resources, running);
  one["errors"] = Json::array();
  for (const ErrorGroup& error : report.errors) one["errors"].push_back(error_json(error));
  one["modules"] = modules_json(report);
  one["notes"] = report.notes;
  return one;
}

}  // namespace

void render_json(const std::vector<Report>& reports, std::ostream& out) {
  Json document;
  if (reports.size() == 1) {
    document = report_json(reports.front());
  } else {
    document["schema"] = "culprit.reports/1";
    document["reports"] = Json::array();
    for (const Report& report : reports) document["reports"].push_back(report_json(report));
  }
  out << document.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
}

}  // namespace culprit
