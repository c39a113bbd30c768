#include "interpose/events/pool_places.h"

#include <memory>

#include "tests/catch.h"

namespace culprit {
namespace {

CUmemoryPool pool(std::uintptr_t address) { return reinterpret_cast<CUmemoryPool>(address); }

}  // namespace

TEST_CASE("the last place of a pool counts", "[pool-places]") {
  const auto places = std::make_unique<PoolPlaces>();
  CHECK(places->of(pool(0x7fffffffffc0)) == PoolPlaces::kUnknown);
  for (const int device : {PoolPlaces::kNone, 0, 1, 254}) {
    places->set(pool(0x7fffffffffc0), device);
    CHECK(places->of(pool(0x7fffffffffc0)) == device);
  }
  CHECK(places->of(pool(0x7fffffffff80)) == PoolPlaces::kUnknown);
}

TEST_CASE("a pool never has the place of another one", "[pool-places]") {
  const auto places = std::make_unique<PoolPlaces>();
  constexpr int kPools = 2000;
  for (int i = 0; i < kPools; ++i) places->set(pool(0x10000 + 64 * std::uintptr_t(i)), i % 8);
  int known = 0;
  for (int i = 0; i < kPools; ++i) {
    const int device = places->of(pool(0x10000 + 64 * std::uintptr_t(i)));
    if (device == PoolPlaces::kUnknown) continue;
    ++known;
    CHECK(device == i % 8);
  }
  CHECK(known > 200);  // the last ones
}

TEST_CASE("pools that are used in turn are known at the same time", "[pool-places]") {
  const auto places = std::make_unique<PoolPlaces>();
  constexpr int kPools = 20;
  for (int i = 0; i < kPools; ++i) places->set(pool(0x10000 + 4096 * std::uintptr_t(i)), 1);
  for (int i = 0; i < kPools; ++i) CHECK(places->of(pool(0x10000 + 4096 * std::uintptr_t(i))) == 1);
}

}  // namespace culprit
