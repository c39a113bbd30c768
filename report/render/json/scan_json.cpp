#include "report/render/json/scan_json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "report/attach/lost_scan.h"
#include "report/model/memory_words.h"
#include "report/model/names.h"
#include "report/model/not_recorded.h"
#include "report/model/report.h"
#include "report/render/json/group_json.h"

namespace culprit::report {

Json scan_json(const LostScanResult& scan, const Report& report) {
  const std::string reason = why_lost_is_not_known(scan.reason, SearchOf::kRunning);
  Json leaks = Json::array();
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  for (const Group& group : report.leaks) {
    Json one = group_json(group, words_of(report, group.cause).may_be_freed, stack_json);
    one["stack"] = stack_json(group.stack);
    leaks.push_back(std::move(one));
    bytes += group.bytes;
    count += group.count;
  }
  Json json;
  json["schema"] = "culprit.scan/1";
  json["process"] = {{"pid", report.process.pid},
                     {"host", report.process.host},
                     {"exe", report.process.executable},
                     {"command", report.process.command}};
  json["search"] = {{"state", lost_search_name(scan.reason)},
                    {"reason", reason.empty() ? Json() : Json(reason)},
                    {"threads", scan.threads},
                    {"stopped_ns", scan.stopped_ns},
                    {"time_ns", scan.search_ns},
                    {"bytes", scan.search_bytes}};
  json["live_bytes"] = scan.live_bytes;
  json["live_allocations"] = scan.live_count;
  json["lost_bytes"] = bytes;
  json["lost_allocations"] = count;
  json["leaks"] = std::move(leaks);
  for (const Overwritten& one : report.overwritten) json["overwritten"].push_back(overwritten_json(one, stack_json));
  return json;
}

}  // namespace culprit::report
