#include "report/screen/top_json.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "report/base/json_output.h"
#include "report/model/causes.h"
#include "report/render/json/json.h"

namespace culprit::report {
namespace {

template <typename Number>
Json or_null(const std::optional<Number>& number) {
  return number ? Json(*number) : Json();
}

Json rounded(const std::optional<double>& number) { return number ? Json(std::llround(*number)) : Json(); }

Json device_json(const LiveDeviceSum& device) {
  Json parts = Json::array();
  for (const auto& [what, bytes] : device.parts) parts.push_back({{"what", balance_name(what)}, {"bytes", bytes}});
  Json json;
  json["uuid"] = device.uuid;
  json["title"] = device.title;
  json["name"] = device.name;
  json["total_bytes"] = device.total != 0 ? Json(device.total) : Json();
  json["in_use_bytes"] = or_null(device.in_use);
  json["live_bytes"] = device.live;
  json["cached_bytes"] = device.cached();
  json["bytes_per_minute"] = rounded(device.per_minute);
  json["parts"] = std::move(parts);
  return json;
}

Json process_json(const LiveModel& model, const LiveProcess& process) {
  const bool known = process.report != nullptr;
  Json json;
  json["pid"] = process.pid;
  json["name"] = process.name;
  json["command"] = process.command;
  json["state"] = live_state_name(process.state);
  json["note"] = process.note;
  json["not_known"] = process.not_known;
  json["seconds"] = known ? Json(static_cast<double>(process.now_ns) / 1e9) : Json();
  json["live_bytes"] = known ? Json(process.live) : Json();
  json["charged_bytes"] = or_null(process.charged);
  json["allocations"] = known ? Json(process.allocations) : Json();
  json["frees"] = known ? Json(process.frees) : Json();
  json["allocations_per_second"] = or_null(model.allocations_per_second(process.key));
  json["frees_per_second"] = or_null(model.frees_per_second(process.key));
  return json;
}

}  // namespace

void render_top_json(const LiveModel& model, const LiveChoice& choice, std::size_t most_rows, const std::string& host,
                     std::ostream& out) {
  Json processes = Json::array();
  std::map<const LiveProcess*, std::size_t> numbers;
  for (const LiveProcess& process : model.look().processes) {
    numbers[&process] = processes.size();
    processes.push_back(process_json(model, process));
  }
  for (const LiveProcess& process : model.not_recorded()) processes.push_back(process_json(model, process));
  Json devices = Json::array();
  for (const LiveDeviceSum& device : model.devices()) devices.push_back(device_json(device));
  Json rows = Json::array();
  const std::vector<LiveRow> all = model.rows(choice);
  for (std::size_t i = 0; i < std::min(all.size(), most_rows); ++i) {
    const LiveRow& row = all[i];
    Json one;
    one["process"] = numbers.at(row.process);
    one["text"] = row.row->text;
    one["id"] = choice.by == "stack" ? Json(row.row->largest->id) : Json();
    one["cause"] = choice.by == "stack" ? Json(cause_name(row.row->largest->cause)) : Json();
    one["bytes"] = row.row->total.bytes;
    one["count"] = row.row->total.allocations;
    one["stacks"] = row.row->total.groups;
    one["change_bytes"] = row.since_start;
    one["bytes_per_minute"] = rounded(row.per_minute);
    one["oldest_seconds"] = or_null(row.oldest_seconds);
    rows.push_back(std::move(one));
  }
  Json json;
  json["schema"] = "culprit.top/1";
  json["host"] = host;
  json["seconds"] = model.seconds();
  json["group_by"] = choice.by;
  json["processes"] = std::move(processes);
  json["processes_left_out"] = model.look().left_out;
  json["devices"] = std::move(devices);
  json["rows"] = std::move(rows);
  json["rows_left_out"] = all.size() - std::min(all.size(), most_rows);
  out << json_text(json) << "\n";
}

}  // namespace culprit::report
