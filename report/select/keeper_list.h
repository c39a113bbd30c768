// The keepers of live memory as a plain list, by id, so that two runs can be compared.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "report/model/keeper.h"

namespace culprit::report {

struct Report;

// The keepers of the caches of these reports that the program can change, without suppressed ones: one for each id,
// with the sum of its bytes.
std::vector<Keeper> keepers_of(const std::vector<const Report*>& reports);

// A row of `kept` of a JSON report. One that is no object is an empty keeper.
Keeper keeper_of_json(const nlohmann::json& row);
// Those of the member `summary` of a report, as keepers_of() has them.
std::vector<Keeper> keepers_of_summary(const nlohmann::json& summary);

// "new    513 MiB kept by `losses`, a list of 20", or "grown  64.0 MiB -> 128 MiB kept by ...".
std::string growth_text(const GrownKeeper& grown);

}  // namespace culprit::report
