#include "report/model/keeper.h"

#include <cstddef>
#include <iterator>

namespace culprit::report {
namespace {

struct KindRow {
  const char* name;
  const char* title;
  unsigned suspicion;
};

constexpr KindRow kRows[] = {
#define KEEPER_KIND(enumerator, name, title, suspicion) {name, title, suspicion},
#include "report/model/keeper_kinds.def"
};

const KindRow& row_of(KeeperKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

}  // namespace

const char* keeper_kind_name(KeeperKind kind) { return row_of(kind).name; }

const char* keeper_kind_title(KeeperKind kind) { return row_of(kind).title; }

KeeperKind keeper_kind_of(const std::string& name) {
  for (std::size_t i = 0; i < std::size(kRows); ++i) {
    if (name == kRows[i].name) return static_cast<KeeperKind>(i);
  }
  return KeeperKind::kNotKnown;
}

const Keeper* most_suspicious(const std::vector<Keeper>& keepers) {
  constexpr std::uint64_t kShare = 100;
  std::uint64_t all = 0;
  for (const Keeper& keeper : keepers) all += keeper.bytes;
  for (unsigned suspicion = 2; suspicion != 0; --suspicion) {
    const Keeper* largest = nullptr;
    for (const Keeper& keeper : keepers) {
      if (row_of(keeper.kind).suspicion == suspicion && !keeper.suppressed && keeper.bytes >= all / kShare &&
          (largest == nullptr || keeper.bytes > largest->bytes))
        largest = &keeper;
    }
    if (largest != nullptr) return largest;
  }
  return nullptr;
}

}  // namespace culprit::report
