#include "report/merge/merge_caches.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "report/keepers/keepers.h"

namespace culprit::report {
namespace {

constexpr std::size_t kMostKeepers = 256;

using Place = CacheInside::Place;

void add_places(const std::vector<Place>& from, std::vector<Place>* into) {
  // Those of sixteen processes with the most that one can tell.
  constexpr std::size_t kMost = 1024;
  using Key = std::tuple<std::uint64_t, std::string, std::string, std::string>;
  const auto key_of = [](const Place& place) { return Key(place.line, place.file, place.function, place.held_by); };
  // A damaged merged file may have very many places.
  std::map<Key, std::size_t> known;
  for (std::size_t i = 0; i < into->size(); ++i) known.emplace(key_of((*into)[i]), i);
  for (const Place& place : from) {
    const auto [at, is_new] = known.try_emplace(key_of(place), into->size());
    if (is_new) {
      into->push_back(place);
    } else {
      (*into)[at->second].bytes += place.bytes;
      (*into)[at->second].count += place.count;
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
    for (const Keeper& keeper : cache.kept) add_keeper(keeper, &same->kept);
    keep_largest(kMostKeepers, &same->kept);
  }
}

}  // namespace culprit::report
