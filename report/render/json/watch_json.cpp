#include "report/render/json/watch_json.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "report/base/json_output.h"
#include "report/render/json/group_json.h"
#include "report/render/json/head_json.h"
#include "report/render/json/json.h"
#include "report/watch/watch_result.h"

namespace culprit::report {
namespace {

Json row_json(const JudgedRow& row, std::size_t process) {
  const RowJudgement& judgement = row.judgement;
  const bool objects = row.row->objects;
  Json json;
  json["id"] = row.row->id;
  json["process"] = process;
  json["verdict"] = verdict_name(judgement.verdict);
  json["kind"] = row.row->kind;
  json["api"] = row.row->api;
  json["device"] = row.row->device ? Json(*row.row->device) : Json();
  json["pool"] = row.row->pool.empty() ? Json() : Json(row.row->pool);
  json["bytes_per_minute"] = objects ? Json() : Json(std::llround(judgement.per_minute));
  json["objects_per_minute"] = objects ? Json(judgement.per_minute) : Json();
  json["lowest_per_minute"] = judgement.lowest;
  json["highest_per_minute"] = judgement.highest;
  json["confidence"] = judgement.confidence;
  json["bytes"] = objects ? Json() : Json(static_cast<std::uint64_t>(row.live));
  json["objects"] = objects ? Json(static_cast<std::uint64_t>(row.live)) : Json();
  json["made"] = row.made;
  json["period_seconds"] = judgement.period > 0 ? Json(judgement.period) : Json();
  json["seconds_until_full"] = row.seconds_until_full ? Json(std::llround(*row.seconds_until_full)) : Json();
  json["until_full_at_most"] = row.at_most;
  json["stack"] = stack_json(&row.row->stack);
  return json;
}

}  // namespace

void render_watch_json(const WatchResult& result, std::ostream& out) {
  Json processes = Json::array();
  Json rows = Json::array();
  for (const WatchedRows& from : result.processes) {
    Json one;
    one["pid"] = from.process->pid();
    one["host"] = from.process->host();
    one["command"] = from.process->command();
    one["seconds"] = from.process->seconds();
    one["samples"] = from.process->history().samples();
    one["rows_left_out"] = from.process->left_out();
    if (from.grown) {
      one["grown"] = growth_json(*from.grown);
      one["grown_seconds"] = from.grown_seconds;
      one["grown_problem"] = from.grown_problem;
    }
    for (const JudgedRow& row : from.rows) rows.push_back(row_json(row, processes.size()));
    processes.push_back(std::move(one));
  }
  Json json;
  json["schema"] = "culprit.watch/1";
  json["verdict"] = outcome_name(outcome_of(result));
  json["reasons"] = result.reasons;
  json["processes"] = std::move(processes);
  json["rows"] = std::move(rows);
  out << json_text(json, 2) << "\n";
}

}  // namespace culprit::report
