#include "report/render/json/diff_json.h"

#include <nlohmann/json.hpp>

#include "report/render/json/head_json.h"

namespace culprit::report {
namespace {

Json side_json(const LeakList& list) {
  Json side = {{"path", list.path},
               {"source", list.source},
               {"leaked_bytes", list.bytes()},
               {"leaked_allocations", list.count()},
               {"groups", list.leaks.size()},
               {"not_known", list.not_known},
               {"notes", list.notes}};
  if (list.mark)
    side["mark"] =
        list.mark->name.empty()
            ? Json()
            : Json({{"name", list.mark->name}, {"number", list.mark->number}, {"time_ns", list.mark->time_ns}});
  return side;
}

Json amount_json(const ListedLeak* listed) {
  if (listed == nullptr) return Json();
  return {{"bytes", listed->leak.bytes}, {"count", listed->leak.count}, {"cause", listed->leak.cause}};
}

}  // namespace

Json diff_head_json(const Diff& diff) {
  Json json;
  json["old"] = side_json(diff.before);
  json["new"] = side_json(diff.now);
  json["findings"] = Json::array();
  for (const FindingChange& one : diff.findings)
    json["findings"].push_back({{"change", change_name(one.change)},
                                {"finding", one.finding.name},
                                {"title", one.finding.title},
                                {"text", one.finding.text},
                                {"where", one.finding.where.empty() ? Json() : Json(one.finding.where)}});
  json["keepers"] = growth_json(diff.keepers);
  for (std::size_t i = 0; i < kChanges; ++i)
    json["summary"][change_name(static_cast<Change>(i))] = diff.entries[i].size();
  return json;
}

Json change_json(const DiffEntry& entry) {
  const BaselineLeak& leak = entry.shown().leak;
  return {{"id", entry.id},
          {"change", change_name(entry.change)},
          {"kind", leak.kind},
          {"api", leak.api},
          {"cause", leak.cause},
          {"where", leak.where},
          {"old", amount_json(entry.before)},
          {"new", amount_json(entry.now)}};
}

}  // namespace culprit::report
