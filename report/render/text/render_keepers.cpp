#include "report/render/text/render_keepers.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "report/base/words.h"
#include "report/findings/cache_words.h"
#include "report/render/text/palette.h"

namespace culprit::report {
namespace {

std::string share_text(std::uint64_t bytes, std::uint64_t all) {
  const std::uint64_t share = all == 0 ? 0 : bytes * 100 / all;
  return share == 0 ? " <1 %" : std::string(share < 10 ? 2 : share < 100 ? 1 : 0, ' ') + std::to_string(share) + " %";
}

}  // namespace

void render_keepers(const CacheInside& inside, std::size_t most, bool colours, std::ostream& out) {
  const Palette palette(colours);
  out << palette.title(inside.pool) << "  " << tensors_text(inside) << "\n";
  if (inside.kept.empty()) {
    if (inside.live_bytes != 0)
      out << "   which variables keep it is not known: the graph of Python's objects was not read\n";
    return;
  }
  std::size_t kind_columns = 0;
  const std::size_t shown = std::min(most, inside.kept.size());
  for (std::size_t i = 0; i < shown; ++i)
    kind_columns = std::max(kind_columns, columns_of(keeper_kind_title(inside.kept[i].kind)));
  const Keeper* worst = most_suspicious(inside.kept);
  std::string hint;
  for (std::size_t i = 0; i < shown; ++i) {
    const Keeper& keeper = inside.kept[i];
    const std::string line = "   " + padded_to_width(format_bytes(keeper.bytes), 9) + "  " +
                             share_text(keeper.bytes, inside.live_bytes) + "  " +
                             padded_to_width(keeper_kind_title(keeper.kind), kind_columns) + "  " + keeper.path;
    out << (&keeper == worst ? palette.warn(line) : line) << "\n";
    if (!keeper.hint.empty() && keeper.hint != hint) out << palette.faint("      instead  " + keeper.hint) << "\n";
    if (!keeper.hint.empty()) hint = keeper.hint;
  }
  if (shown < inside.kept.size()) out << "   and " << inside.kept.size() - shown << " more: --all\n";
}

}  // namespace culprit::report
