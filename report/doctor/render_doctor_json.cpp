#include "report/doctor/render_doctor_json.h"

#include <nlohmann/json.hpp>

#include "report/base/json_output.h"
#include "report/doctor/diagnosis.h"

namespace culprit::report {
namespace {

using Json = nlohmann::ordered_json;

template <typename Value>
Json known(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}

Json text(const std::string& value) { return value.empty() ? Json() : Json(value); }

Json container_json(const Container& container) {
  if (!container.found()) return Json();
  return {{"runtime", text(container.runtime)},
          {"id", text(container.id)},
          {"name", text(container.name)},
          {"pod", text(container.pod)}};
}

Json process_json(const ProcessFacts& process) {
  Json one;
  one["pid"] = process.pid;
  one["name"] = process.name;
  one["command"] = process.command;
  one["user"] = text(process.user);
  one["state"] = std::string(1, process.state);
  one["parent_pid"] = process.parent;
  one["parent_name"] = text(process.parent_name);
  one["age_seconds"] = known(process.age_seconds);
  one["container"] = container_json(process.container);
  one["gpu_files"] = process.gpus;
  one["live_threads"] = process.live_threads;
  one["wait_channel"] = text(process.wait_channel);
  one["stuck_threads"] = Json::array();
  for (const StuckThread& thread : process.stuck_threads) {
    one["stuck_threads"].push_back({{"tid", thread.tid},
                                    {"wait_channel", text(thread.wait_channel)},
                                    {"kernel_stack", thread.kernel_stack},
                                    {"in_driver", thread.kernel_stack.empty() ? Json() : Json(thread.in_driver())}});
  }
  return one;
}

// The balance of now. The rest is among the items if NVML gives a figure.
Json balance_json(const Inside& inside) {
  if (!inside.balance) return Json();
  const Balance& balance = *inside.balance;
  Json one;
  one["process_bytes"] = known(inside.charge.bytes);
  one["problem"] = text(inside.charge.problem);
  one["explained_bytes"] = balance.explained();
  one["others_included"] = balance.others_included;
  one["contexts_at_most"] = balance.contexts_at_most;
  one["managed_bytes"] = balance.managed;
  one["items"] = Json::array();
  for (const BalanceItem& item : balance.items)
    one["items"].push_back({{"what", balance_name(item.what)}, {"bytes", item.bytes}});
  return one;
}

Json inside_json(const Holder& holder) {
  if (!holder.inside) return Json();
  const Inside& inside = *holder.inside;
  Json one;
  one["gpu"] = text(inside.gpu);
  one["dump"] = inside.dump;
  one["problem"] = text(inside.problem);
  if (!inside.problem.empty()) return one;
  one["live_bytes"] = inside.live_bytes;
  one["lost_bytes"] = inside.lost_bytes;
  one["cached_bytes"] = inside.cached_bytes;
  one["pool_bytes"] = inside.pool_bytes;
  one["rest_bytes"] = holder.bytes && *holder.bytes >= inside.known() ? Json(*holder.bytes - inside.known()) : Json();
  one["balance"] = balance_json(inside);
  one["stacks"] = Json::array();
  for (const Inside::Stack& stack : inside.stacks) {
    one["stacks"].push_back({{"id", stack.id},
                             {"bytes", stack.bytes},
                             {"count", stack.count},
                             {"api", stack.api},
                             {"place", stack.place},
                             {"cause", text(stack.cause)}});
  }
  one["shared"] = inside.shared;
  return one;
}

Json holder_json(const Holder& holder) {
  Json one;
  one["kind"] = holder_kind_name(holder.kind);
  one["pid"] = holder.pid;
  one["bytes"] = known(holder.bytes);
  one["use"] = holder.use ? Json(gpu_use_name(*holder.use)) : Json();
  one["role"] = text(holder.role);
  one["gpu_instance"] = known(holder.gpu_instance);
  one["compute_instance"] = known(holder.compute_instance);
  one["process"] = holder.process ? process_json(*holder.process) : Json();
  one["keepers"] = Json::array();
  for (const ProcessFacts& keeper : holder.keepers) one["keepers"].push_back(process_json(keeper));
  one["certain"] = holder.certain;
  one["inside"] = inside_json(holder);
  one["explanation"] = text(holder.explanation);
  one["next"] = holder.next;
  return one;
}

Json recorded_json(const TableRow& row) {
  if (!row.recorded) return Json();
  const Inside& inside = *row.recorded;
  Json one = {{"dump", inside.dump}, {"problem", text(inside.problem)}};
  if (!inside.problem.empty()) return one;
  one["bytes"] = inside.live_bytes + inside.lost_bytes + inside.cached_bytes;
  one["live_bytes"] = inside.live_bytes;
  one["lost_bytes"] = inside.lost_bytes;
  one["cached_bytes"] = inside.cached_bytes;
  return one;
}

Json table_json(const DeviceTable& table) {
  Json one = {{"problem", text(table.problem)},
              {"charged_bytes", table.charged},
              {"uncharged_bytes", known(table.uncharged)},
              {"in_use_bytes", known(table.in_use)},
              {"rows", Json::array()}};
  for (const TableRow& row : table.rows) {
    const bool is_process = row.uuid.empty();
    one["rows"].push_back({{"pid", is_process ? Json(row.pid) : Json()},
                           {"own_pid", row.own_number != 0 ? Json(row.own_number) : Json()},
                           {"mig_uuid", text(row.uuid)},
                           {"name", text(row.name)},
                           {"user", text(row.account)},
                           {"kind", is_process ? Json(holder_kind_name(row.kind)) : Json()},
                           {"listed", row.listed},
                           {"bytes", known(row.bytes)},
                           {"recorded", recorded_json(row)},
                           {"not_examined", text(row.unreadable)}});
  }
  return one;
}

Json holders_json(const std::vector<Holder>& holders) {
  Json list = Json::array();
  for (const Holder& holder : holders) list.push_back(holder_json(holder));
  return list;
}

Json memory_json(const std::optional<GpuMemory>& memory) {
  if (!memory) return Json();
  return {{"total_bytes", memory->total},
          {"reserved_bytes", memory->reserved},
          {"used_bytes", memory->used()},
          {"free_bytes", memory->free}};
}

Json xids_json(const std::vector<Xid>& xids, double uptime_seconds) {
  Json list = Json::array();
  for (const Xid& xid : xids) {
    Json one;
    one["number"] = xid.number;
    one["pci"] = xid.pci;
    one["count"] = xid.count;
    one["age_seconds"] = known(age_of(xid, uptime_seconds));
    one["pid"] = known(xid.pid);
    one["process"] = text(xid.process);
    one["meaning"] = text(xid.meaning);
    one["advice"] = text(xid.advice);
    one["detail"] = text(xid.detail);
    list.push_back(std::move(one));
  }
  return list;
}

Json mps_json(const Diagnosis& diagnosis) {
  Json one = {{"daemons", Json::array()}, {"clients", diagnosis.mps_clients}};
  for (const MpsDaemon& daemon : diagnosis.mps) {
    one["daemons"].push_back({{"pid", known(daemon.pid)},
                              {"user", text(daemon.user)},
                              {"pipe_directory", text(daemon.pipes)},
                              {"pipe_directory_by_default", daemon.pipes_by_default},
                              {"servers", daemon.servers}});
  }
  return one;
}

Json gpu_json(const GpuDiagnosis& diagnosis, double uptime_seconds) {
  const GpuFacts& gpu = diagnosis.gpu;
  Json one;
  one["index"] = gpu.index;
  one["minor"] = known(gpu.minor);
  one["uuid"] = text(gpu.uuid);
  one["name"] = text(gpu.name);
  one["pci"] = text(gpu.pci);
  one["memory"] = memory_json(gpu.memory);
  one["named_bytes"] = diagnosis.named;
  one["unexplained_bytes"] = known(diagnosis.unexplained);
  one["processes_known"] = gpu.processes_known;
  one["compute_mode"] = compute_mode_name(gpu.compute_mode);
  one["persistence"] = known(gpu.persistence);
  one["ecc"] = known(gpu.ecc);
  one["uncorrected_ecc_errors"] = known(gpu.ecc_errors);
  one["retired_pages"] = known(gpu.retired_pages);
  one["retirement_pending"] = gpu.retirement_pending;
  one["remapped_rows"] = known(gpu.remapped_rows);
  one["remap_pending"] = gpu.remap_pending;
  one["remap_failed"] = gpu.remap_failed;
  one["mig"] = gpu.mig;
  one["mig_pending"] = known(gpu.mig_pending);
  one["mig_devices"] = Json::array();
  for (const MigDevice& mig : gpu.mig_devices) {
    one["mig_devices"].push_back({{"index", mig.index},
                                  {"uuid", text(mig.uuid)},
                                  {"name", text(mig.name)},
                                  {"gpu_instance", known(mig.gpu_instance)},
                                  {"compute_instance", known(mig.compute_instance)},
                                  {"memory", memory_json(mig.memory)},
                                  {"processes", use_of(gpu, mig).processes},
                                  {"named_bytes", use_of(gpu, mig).bytes},
                                  {"table", table_json(diagnosis.tables.at(one["mig_devices"].size() + 1))}});
  }
  one["table"] = table_json(diagnosis.tables.at(0));
  one["holders"] = holders_json(diagnosis.holders);
  one["findings"] = diagnosis.findings;
  one["next"] = diagnosis.next;
  one["xids"] = xids_json(diagnosis.xids, uptime_seconds);
  one["reset"] = {{"pids", diagnosis.reset.pids}, {"complete", diagnosis.reset.complete}};
  one["answers"] = diagnosis.answers;
  return one;
}

}  // namespace

void render_doctor_json(const Diagnosis& diagnosis, std::ostream& out) {
  Json one;
  one["schema"] = "culprit.doctor/1";
  one["host"] = diagnosis.host;
  one["driver"] = text(diagnosis.driver);
  one["open_modules"] = known(diagnosis.open_modules);
  one["cuda"] = text(diagnosis.cuda);
  one["known_issues"] = Json::array();
  for (const KnownIssue& issue : diagnosis.known_issues) {
    one["known_issues"].push_back(
        {{"problem", issue.problem}, {"remedy", text(issue.remedy)}, {"source", issue.source}});
  }
  one["nvml"] = diagnosis.nvml;
  one["host_view"] = diagnosis.host_view;
  one["gpus"] = Json::array();
  for (const GpuDiagnosis& gpu : diagnosis.gpus) one["gpus"].push_back(gpu_json(gpu, diagnosis.uptime_seconds));
  one["holders"] = holders_json(diagnosis.holders);
  one["xids"] = xids_json(diagnosis.xids, diagnosis.uptime_seconds);
  one["mps"] = mps_json(diagnosis);
  one["unseen"] = diagnosis.unseen;
  out << json_text(one, 2) << "\n";
}

}  // namespace culprit::report
