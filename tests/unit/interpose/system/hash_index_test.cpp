#include "interpose/system/hash_index.h"

#include <map>
#include <random>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {
void* no_memory(void*, std::uint64_t, int, int, int, std::uint64_t, int* error) {
  *error = 12;
  return nullptr;
}
}  // namespace

TEST_CASE("an index does what a multimap does, through growth and erasure") {
  Zeroed<HashIndex> index;
  std::multimap<std::uint64_t, std::uint32_t> model;
  std::mt19937_64 random(7);
  for (std::uint32_t step = 1; step < 200000; ++step) {
    std::uint64_t key = random() % 5000 * 256;  // aligned like device addresses
    if (random() % 3 != 0) {
      REQUIRE(index->insert(key, step, 9));
      model.emplace(key, step);
    } else {
      auto known = model.find(key);
      HashIndex::Entry* entry = index->find(key);
      REQUIRE((entry != nullptr) == (known != model.end()));
      if (entry == nullptr) continue;
      auto range = model.equal_range(key);
      auto same = range.first;
      while (same != range.second && same->second != entry->value) ++same;
      REQUIRE(same != range.second);
      model.erase(same);
      index->erase(entry);
    }
  }
  REQUIRE(index->size() == model.size());
  for (const auto& [key, value] : model) {
    std::uint32_t wanted = value;
    HashIndex::Entry* entry = index->find(key, [&](const HashIndex::Entry& e) { return e.value == wanted; });
    REQUIRE(entry != nullptr);
  }
}

TEST_CASE("an index that cannot grow says so and keeps what it has") {
  RealOs restore;
  Zeroed<HashIndex> index;
  std::uint32_t stored = 0;
  REQUIRE(index->insert(1, 1, 0));
  os.map = no_memory;
  for (std::uint32_t i = 2; i < 1000; ++i) {
    if (!index->insert(i, i, 0)) break;
    stored = i;
  }
  CHECK(stored < 999);
  CHECK(index->find(1) != nullptr);
  CHECK(index->find(stored) != nullptr);
}
