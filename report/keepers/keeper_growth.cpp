#include "report/keepers/keeper_growth.h"

#include <algorithm>
#include <map>
#include <utility>

namespace culprit::report {
namespace {

void add(const Keeper& keeper, std::uint64_t GrownKeeper::*bytes, std::map<std::string, GrownKeeper>* rows) {
  GrownKeeper& row = rows->try_emplace(keeper.id, GrownKeeper{keeper, 0, 0}).first->second;
  row.*bytes += keeper.bytes;
  if (bytes == &GrownKeeper::now && (row.now == keeper.bytes || keeper.bytes > row.keeper.bytes)) row.keeper = keeper;
}

}  // namespace

std::vector<GrownKeeper> grown_keepers(const std::vector<Keeper>& before, const std::vector<Keeper>& now) {
  std::map<std::string, GrownKeeper> rows;
  for (const Keeper& keeper : before) add(keeper, &GrownKeeper::before, &rows);
  for (const Keeper& keeper : now) add(keeper, &GrownKeeper::now, &rows);
  std::vector<GrownKeeper> grown;
  for (auto& [id, row] : rows) {
    if (row.growth() != 0) grown.push_back(std::move(row));
  }
  std::stable_sort(grown.begin(), grown.end(),
                   [](const GrownKeeper& one, const GrownKeeper& other) { return one.growth() > other.growth(); });
  return grown;
}

}  // namespace culprit::report
