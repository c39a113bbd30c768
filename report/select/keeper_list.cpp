#include "report/select/keeper_list.h"

#include <map>
#include <nlohmann/json.hpp>

#include "report/base/json_input.h"
#include "report/base/printable.h"
#include "report/base/words.h"
#include "report/model/report.h"

namespace culprit::report {
namespace {

using Json = nlohmann::json;

class Sums {
 public:
  void add(const Keeper& keeper) {
    const bool changeable = keeper.kind != KeeperKind::kNotKnown && keeper.kind != KeeperKind::kPending;
    if (!changeable || keeper.suppressed || keeper.id.empty()) return;
    const auto [at, added] = sums_.try_emplace(keeper.id, keeper);
    if (added) return;
    at->second.bytes += keeper.bytes;
    at->second.count += keeper.count;
  }
  std::vector<Keeper> list() const {
    std::vector<Keeper> list;
    for (const auto& [id, keeper] : sums_) list.push_back(keeper);
    return list;
  }

 private:
  std::map<std::string, Keeper> sums_;
};

}  // namespace

std::vector<Keeper> keepers_of(const std::vector<const Report*>& reports) {
  Sums sums;
  for (const Report* report : reports) {
    for (const CacheInside& inside : report->caches_inside) {
      for (const Keeper& keeper : inside.kept) sums.add(keeper);
    }
  }
  return sums.list();
}

Keeper keeper_of_json(const Json& row) {
  Keeper keeper;
  if (!row.is_object()) return keeper;
  keeper.kind = keeper_kind_of(text_of(row, "kind"));
  keeper.path = printable(text_of(row, "path"));
  keeper.bytes = number_of(row, "bytes");
  keeper.count = number_of(row, "count");
  keeper.hint = printable(text_of(row, "hint"));
  keeper.id = text_of(row, "id");
  keeper.suppressed = flag_of(row, "suppressed");
  return keeper;
}

std::vector<Keeper> keepers_of_summary(const Json& summary) {
  Sums sums;
  const auto list_of = [](const Json& from, const char* name) {
    const auto at = from.is_object() ? from.find(name) : from.end();
    return from.is_object() && at != from.end() && at->is_array() ? *at : Json::array();
  };
  for (const Json& cache : list_of(summary, "caches")) {
    const Json inside = cache.is_object() ? cache.value("inside", Json()) : Json();
    for (const Json& row : list_of(inside, "kept")) sums.add(keeper_of_json(row));
  }
  return sums.list();
}

std::string growth_text(const GrownKeeper& grown) {
  const std::string kept = " kept by " + grown.keeper.path;
  if (grown.before == 0) return "new    " + format_bytes(grown.now) + kept;
  if (grown.now == 0) return "gone   " + format_bytes(grown.before) + kept;
  return (grown.growth() > 0 ? "grown  " : "shrunk ") + format_bytes(grown.before) + " -> " + format_bytes(grown.now) +
         kept;
}

}  // namespace culprit::report
