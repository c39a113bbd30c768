#include "report/render/json/tensors_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

#include "report/base/json_input.h"
#include "report/keepers/keeper_growth.h"
#include "report/render/json/head_json.h"
#include "report/select/keeper_list.h"

namespace culprit::report {
namespace {

constexpr char kSchema[] = "culprit.tensors/1";

}  // namespace

Json tensors_json(const std::string& name, const std::vector<CacheInside>& caches,
                  const std::vector<CacheInside>* before, bool addresses) {
  Json list = Json::array();
  for (const CacheInside& inside : caches) {
    Json one = inside_json(inside);
    one["pool"] = inside.pool;
    for (std::size_t i = 0; addresses && i < inside.kept.size(); ++i)
      one["kept"][i]["addresses"] = inside.kept[i].blocks;
    if (before != nullptr) {
      const CacheInside* earlier = same_cache(*before, inside);
      one["grown"] =
          growth_json(grown_keepers(earlier != nullptr ? earlier->kept : std::vector<Keeper>(), inside.kept));
    }
    list.push_back(std::move(one));
  }
  return {{"dump", name}, {"caches", std::move(list)}};
}

Json tensors_file_json(Json dumps) { return {{"schema", kSchema}, {"dumps", std::move(dumps)}}; }

std::vector<CacheInside> caches_of_tensors_json(const nlohmann::json& file, const std::string& path) {
  const auto dumps = file.is_object() ? file.find("dumps") : file.end();
  if (!file.is_object() || text_of(file, "schema") != kSchema || dumps == file.end() || !dumps->is_array() ||
      dumps->empty() || !dumps->front().is_object())
    throw std::runtime_error(path + " is no file of culprit tensors --format json");
  std::vector<CacheInside> caches;
  const auto list = dumps->front().find("caches");
  if (list == dumps->front().end() || !list->is_array()) return caches;
  for (const nlohmann::json& from : *list) {
    if (!from.is_object()) continue;
    CacheInside inside;
    inside.pool = text_of(from, "pool");
    inside.taken = text_of(from, "taken");
    inside.live_bytes = number_of(from, "live_bytes");
    inside.idle_bytes = number_of(from, "idle_bytes");
    const auto kept = from.find("kept");
    for (std::size_t i = 0; kept != from.end() && kept->is_array() && i < kept->size(); ++i)
      if ((*kept)[i].is_object()) inside.kept.push_back(keeper_of_json((*kept)[i]));
    caches.push_back(std::move(inside));
  }
  return caches;
}

}  // namespace culprit::report
