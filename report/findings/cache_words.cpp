#include "report/findings/cache_words.h"

#include "report/base/words.h"
#include "report/model/frames.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostPlaces = 3;

}  // namespace

std::string tensors_text(const CacheInside& inside) {
  const std::string rest = inside.uncounted_bytes == 0
                               ? format_bytes(inside.idle_bytes) + " idle"
                               : format_bytes(inside.uncounted_bytes) + " idle or without an object of Python";
  return format_bytes(inside.live_bytes) + " live · " + rest +
         (inside.taken == "exit"            ? ", when Python began to end"
          : inside.taken == "out-of-memory" ? ", when memory ran out"
                                            : "");
}

std::vector<std::string> keeper_lines(const CacheInside& inside, std::size_t most) {
  std::vector<std::string> lines;
  for (const Keeper& keeper : inside.kept) {
    if (lines.size() == most) break;
    lines.push_back(format_bytes(keeper.bytes) + "  " + keeper_kind_title(keeper.kind) + "  " + keeper.path +
                    (keeper.suppressed ? "  (suppressed)" : ""));
  }
  return lines;
}

std::vector<std::string> live_places(const CacheInside& inside) {
  std::vector<std::string> lines;
  for (const CacheInside::Place& place : inside.largest) {
    if (lines.size() == kMostPlaces) break;
    std::string text = format_bytes(place.bytes) + "  " + std::to_string(place.count) + "x";
    if (!place.file.empty()) {
      text +=
          "  " + printable(base_name(place.file)) + ":" + std::to_string(place.line) + "  " + printable(place.function);
    }
    if (!place.held_by.empty()) text += "  held by " + printable(place.held_by);
    lines.push_back(std::move(text));
  }
  return lines;
}

}  // namespace culprit::report
