#include "report/render/text/render_keepers.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "report/base/words.h"
#include "report/findings/cache_words.h"
#include "report/keepers/keeper_growth.h"
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

void render_keeper_growth(const CacheInside& before, const CacheInside& now, const std::string& since, std::size_t most,
                          bool colours, std::ostream& out) {
  const Palette palette(colours);
  const std::int64_t whole = static_cast<std::int64_t>(now.live_bytes - before.live_bytes);
  out << palette.title(now.pool) << "  " << (whole == 0 ? "as large as" : growth_text(whole) + " live since") << " "
      << printable(since) << " (" << tensors_text(now) << ")\n";
  if (now.kept.empty() && now.live_bytes != 0) {
    out << "   which variables keep it is not known: the graph of Python's objects was not read\n";
    return;
  }
  const std::vector<GrownKeeper> grown = grown_keepers(before.kept, now.kept);
  if (grown.empty()) out << "   no keeper grew\n";
  const std::size_t shown = std::min(most, grown.size());
  std::size_t kind_columns = 0;
  for (std::size_t i = 0; i < shown; ++i)
    kind_columns = std::max(kind_columns, columns_of(keeper_kind_title(grown[i].keeper.kind)));
  for (std::size_t i = 0; i < shown; ++i) {
    const GrownKeeper& row = grown[i];
    const std::string line = "   " + padded_to_width(growth_text(row.growth()), 10) + "  " +
                             padded_to_width(keeper_kind_title(row.keeper.kind), kind_columns) + "  " +
                             row.keeper.path +
                             (row.before == 0 ? "  new"
                              : row.now == 0  ? "  gone"
                                              : "  " + format_bytes(row.now) + " now");
    out << (i == 0 && row.growth() > 0 ? palette.warn(line) : line) << "\n";
    if (!row.keeper.hint.empty() && row.growth() > 0) out << palette.faint("      instead  " + row.keeper.hint) << "\n";
  }
  if (shown < grown.size()) out << "   and " << grown.size() - shown << " more: --all\n";
}

}  // namespace culprit::report
