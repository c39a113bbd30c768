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
// Those of sixteen processes with the most that one can tell.
constexpr std::size_t kMostPlaces = 1024;

using Place = CacheInside::Place;

// Linear in both lists, because a damaged merged file may have very many entries.
template <typename Thing, typename KeyOf>
void add_up(const std::vector<Thing>& from, KeyOf key_of, std::vector<Thing>* into) {
  std::map<decltype(key_of(from.front())), std::size_t> known;
  for (std::size_t i = 0; i < into->size(); ++i) known.emplace(key_of((*into)[i]), i);
  for (const Thing& thing : from) {
    const auto [at, is_new] = known.try_emplace(key_of(thing), into->size());
    if (is_new) {
      into->push_back(thing);
    } else {
      (*into)[at->second].bytes += thing.bytes;
      (*into)[at->second].count += thing.count;
    }
  }
}

auto place_key(const Place& place) { return std::make_tuple(place.line, place.file, place.function, place.held_by); }
auto keeper_key(const Keeper& keeper) { return std::make_tuple(keeper.kind, keeper.path); }

// Largest first; entries of the same size in an order that does not depend on the order of merging.
template <typename Thing, typename KeyOf>
void put_in_order(KeyOf key_of, std::vector<Thing>* things) {
  std::sort(things->begin(), things->end(), [&](const Thing& left, const Thing& right) {
    return left.bytes != right.bytes ? left.bytes > right.bytes : key_of(left) < key_of(right);
  });
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
    same->uncounted_bytes += cache.uncounted_bytes;
    same->taken = std::min(same->taken, cache.taken);
    same->hint = std::min(same->hint, cache.hint);
    add_up(cache.largest, place_key, &same->largest);
    add_up(cache.kept, keeper_key, &same->kept);
  }
}

void limit_caches(std::vector<CacheInside>* caches) {
  std::sort(caches->begin(), caches->end(),
            [](const CacheInside& left, const CacheInside& right) { return left.pool < right.pool; });
  for (CacheInside& cache : *caches) {
    put_in_order(place_key, &cache.largest);
    if (cache.largest.size() > kMostPlaces) cache.largest.resize(kMostPlaces);
    put_in_order(keeper_key, &cache.kept);
    keep_largest(kMostKeepers, &cache.kept);
  }
}

}  // namespace culprit::report
