#include "report/render/json/render_sweep_json.h"

#include <nlohmann/json.hpp>

#include "report/base/json_output.h"
#include "report/base/words.h"
#include "report/render/json/render_json.h"

namespace culprit::report {
namespace {

using Json = nlohmann::ordered_json;

Json ended_json(const PoolResult& result) {
  Json one;
  one["exit_code"] = result.child.signalled || result.timed_out ? Json() : Json(result.child.code);
  one["signal"] = result.child.signalled && !result.timed_out ? Json(signal_text(result.child.code)) : Json();
  one["seconds"] = result.seconds;
  return one;
}

}  // namespace

void render_sweep_json(const Sweep& sweep, std::ostream& out) {
  Json all;
  all["schema"] = "culprit.sweep/1";
  all["command"] = sweep.command;
  all["clean"] = ended_json(sweep.clean);
  std::uint64_t groups = 0;
  for (const auto& report : sweep.clean_reports) groups += report->summary.groups;
  all["clean"]["leaks"] = groups;
  all["sites"] = sweep.sites;
  all["summary"] = {{"leaks", sweep.leaks()},
                    {"errors", sweep.errors()},
                    {"crashes", sweep.count(SweepOutcome::kCrash)},
                    {"hangs", sweep.count(SweepOutcome::kHang)},
                    {"gave_up", sweep.count(SweepOutcome::kGaveUp)},
                    {"not_reached", sweep.count(SweepOutcome::kNotReached)},
                    {"unreadable", sweep.count(SweepOutcome::kUnreadable)},
                    {"verdict", verdict_name(sweep)},
                    {"not_known", reasons_not_known(sweep)}};
  all["leaks"] = Json::array();
  all["errors"] = Json::array();
  for (const SweepFinding& finding : sweep.findings) {
    Json one = Json::parse(finding.is_error ? error_as_json(finding.error) : group_as_json(finding.leak));
    one["runs"] = finding.runs;
    all[finding.is_error ? "errors" : "leaks"].push_back(std::move(one));
  }
  all["runs"] = Json::array();
  for (const SweepRun& run : sweep.runs) {
    Json one;
    one["site"] = site_name(run.site);
    one["api"] = run.site.api;
    one["calls"] = run.site.calls;
    one["outcome"] = outcome_name(run.outcome);
    one.update(ended_json(run.result));
    one["not_known"] = run.not_known;
    if (run.gave_up != nullptr) one["exit_stack"] = Json::parse(stack_as_json(*run.gave_up->exit_stack));
    one["stack"] = run.site.stack == nullptr ? Json::array() : Json::parse(stack_as_json(*run.site.stack));
    all["runs"].push_back(std::move(one));
  }
  out << json_text(all, 2) << "\n";
}

}  // namespace culprit::report
