// The JSON of `culprit tensors`, schema culprit.tensors/1: written, and read again for --since.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/model/cache_inside.h"
#include "report/render/json/json.h"

namespace culprit::report {

// The caches of one dump or process. `before`: those of an earlier moment; nullptr: there is none. `addresses`: also
// those of the blocks of each keeper.
Json tensors_json(const std::string& name, const std::vector<CacheInside>& caches,
                  const std::vector<CacheInside>* before, bool addresses);
Json tensors_file_json(Json dumps);

// The caches of the first entry of such a file, with their keepers and sums only. Throws std::runtime_error when it is
// none.
std::vector<CacheInside> caches_of_tensors_json(const nlohmann::json& file, const std::string& path);

}  // namespace culprit::report
