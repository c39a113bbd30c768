#include "report/render/json/finding_json.h"

#include <nlohmann/json.hpp>

#include "report/findings/finding.h"
#include "report/model/report.h"
#include "report/render/json/group_json.h"

namespace culprit::report {
namespace {

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json finding_json(const Report& report, const Finding& finding) {
  const FindingRow& row = row_of(finding.kind);
  Json one;
  one["finding"] = row.name;
  one["title"] = finding.title;
  one["text"] = finding.headline;
  one["severity"] = severity_name(finding.severity);
  one["gate"] = text_or_null(row.gate);
  one["details"] = row.details;
  one["answer"] = row.question ? Json(answer_link(*row.question)) : Json();
  one["bytes"] = finding.bytes;
  one["count"] = finding.count;
  one["device"] = device_json(finding.device);
  if (!report.job.empty()) one["processes"] = finding.processes;
  one["where"] = text_or_null(where_of(finding));
  one["places"] = Json::array();
  for (const FindingPlace& place : finding.places)
    one["places"].push_back({{"label", place.label}, {"stack", stack_json(place.stack)}});
  one["facts"] = finding.facts;
  one["hint"] = text_or_null(finding.hint);
  if (finding.more != 0) one["more"] = finding.more;
  return one;
}

}  // namespace

Json findings_json(const Report& report, const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(finding_json(report, finding));
  return list;
}

}  // namespace culprit::report
