#include "report/render/json/finding_json.h"

#include <nlohmann/json.hpp>

#include "report/findings/finding.h"
#include "report/model/report.h"
#include "report/render/json/group_json.h"

namespace culprit::report {
namespace {

Json answer_json(const Finding& finding) {
  const std::optional<Question> question = row_of(finding.kind).question;
  return question ? Json(answer_link(*question)) : Json();
}

Json places_json(const Finding& finding) {
  Json list = Json::array();
  for (const FindingPlace& place : finding.places)
    list.push_back({{"label", place.label}, {"stack", stack_json(place.stack)}});
  return list;
}

// THE list of the members. Each is written, and its meaning is a row of the table in SCHEMA.md.
template <typename Visit>
void visit_members(const Report& report, const Finding& finding, Visit visit) {
  const FindingRow& row = row_of(finding.kind);
  const bool job = !report.job.empty();
  // clang-format off
  visit("finding",     "its name, see below", true, [&] { return Json(row.name); });
  visit("title",       "before the colon in the text report, there in capitals", true, [&] { return Json(finding.title); });
  visit("text",        "behind the colon", true, [&] { return Json(finding.headline); });
  visit("severity",    "`error`, `warning`, `note`", true, [&] { return Json(severity_name(finding.severity)); });
  visit("gate",        "the class of `--fail-on` that counts it; `not-known`: it makes the verdict not known; null: it fails nothing", true, [&] { return json_or_null(row.gate); });
  visit("details",     "the member of the report with all facts", true, [&] { return Json(row.details); });
  visit("answer",      "the answer in [examples/README.md](../examples/README.md#questions-that-people-ask), or null", true, [&] { return answer_json(finding); });
  visit("bytes",       "of the memory that it is about; 0: not known, or there is none", true, [&] { return Json(finding.bytes); });
  visit("count",       "of the calls, allocations or objects that it is about", true, [&] { return Json(finding.count); });
  visit("device",      "of the memory; null: not known, or several", true, [&] { return device_json(finding.device); });
  visit("processes[]", "only of a merged job: indices into `processes`", job, [&] { return Json(finding.processes); });
  visit("where",       "the source line that it is about, by which `culprit diff` finds it again; null: not known", true, [&] { return json_or_null(where_of(finding)); });
  visit("places[]",    "`label` (`made`, `freed`, ...) and `stack`", true, [&] { return places_json(finding); });
  visit("facts[]",     "further sentences", true, [&] { return Json(finding.facts); });
  visit("hint",        "a sentence, or null", true, [&] { return json_or_null(finding.hint); });
  visit("more",        "only in the data of a page: findings of this kind that are left out", finding.more != 0, [&] { return Json(finding.more); });
  // clang-format on
}

Json finding_json(const Report& report, const Finding& finding) {
  Json one;
  visit_members(report, finding, [&](std::string name, const char*, bool is_there, auto value) {
    if (name.back() == ']') name.resize(name.size() - 2);
    if (is_there) one[name] = value();
  });
  return one;
}

}  // namespace

Json findings_json(const Report& report, const std::vector<Finding>& findings) {
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(finding_json(report, finding));
  return list;
}

std::string finding_members_table() {
  std::string table;
  visit_members(Report(), Finding(), [&](const char* name, const char* meaning, bool, auto) {
    table += "| `" + std::string(name) + "` | " + meaning + " |\n";
  });
  return table;
}

}  // namespace culprit::report
