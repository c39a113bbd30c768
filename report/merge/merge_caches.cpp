#include "report/merge/merge_caches.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

namespace culprit::report {
namespace {

using Place = CacheInside::Place;

bool is_same(const Place& one, const Place& other) {
  return std::tie(one.line, one.file, one.function, one.held_by) ==
         std::tie(other.line, other.file, other.function, other.held_by);
}

void add_places(const std::vector<Place>& from, std::vector<Place>* into) {
  constexpr std::size_t kMost = 64;
  for (const Place& place : from) {
    const auto same = std::find_if(into->begin(), into->end(), [&](const Place& one) { return is_same(one, place); });
    if (same == into->end()) {
      into->push_back(place);
    } else {
      same->bytes += place.bytes;
      same->count += place.count;
    }
  }
  std::stable_sort(into->begin(), into->end(),
                   [](const Place& one, const Place& other) { return one.bytes > other.bytes; });
  if (into->size() > kMost) into->resize(kMost);
}

}  // namespace

void merge_caches(const std::vector<CacheInside>& from, std::vector<CacheInside>* into) {
  for (const CacheInside& cache : from) {
    auto same =
        std::find_if(into->begin(), into->end(), [&](const CacheInside& one) { return one.pool == cache.pool; });
    if (same == into->end()) {
      CacheInside first;
      first.pool = cache.pool;
      first.taken = cache.taken;
      first.hint = cache.hint;
      into->push_back(std::move(first));
      same = std::prev(into->end());
    }
    same->live_bytes += cache.live_bytes;
    same->idle_bytes += cache.idle_bytes;
    add_places(cache.largest, &same->largest);
  }
}

}  // namespace culprit::report
