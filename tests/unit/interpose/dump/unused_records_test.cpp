#include "interpose/dump/unused_records.h"

#include <random>
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::Ref;

namespace {

struct UnusedFixture {
  ~UnusedFixture() { unused->free_memory(); }
  static constexpr Ref kOfPage = 4096 / format::kRefUnit;

  void add_page(std::uint64_t page) { unused->add_pages({page, 1}); }
  std::vector<Ref> take(std::uint32_t count) {
    std::vector<Ref> taken(count);
    taken.resize(unused->take(taken.data(), count));
    return taken;
  }

  Zeroed<UnusedRecords> unused;
};

}  // namespace

TEST_CASE_METHOD(UnusedFixture, "unused records: the lowest are handed out first, whatever the order they came in") {
  std::set<Ref> model;
  std::mt19937 random(3);
  for (int step = 0; step < 3000; ++step) {
    if (random() % 2 == 0) {
      // In several regions, some of them far away.
      for (int i = 0; i < 40; ++i) {
        const Ref ref = (random() % 4 * 1000003 + random() % 5000) * 4;
        if (model.insert(ref).second) REQUIRE(unused->add(ref));
      }
    } else {
      for (Ref ref : take(random() % 60)) {
        REQUIRE(ref == *model.begin());
        model.erase(model.begin());
      }
    }
    REQUIRE(unused->count() == model.size());
  }
  CHECK(take(100000).size() == model.size());
  CHECK(take(1).empty());
}

TEST_CASE_METHOD(UnusedFixture, "unused records: idle pages become holes where they are many, the highest first") {
  constexpr std::uint64_t kPages = 2000;
  for (std::uint64_t page = 1; page <= kPages; ++page) add_page(page);
  std::set<std::uint64_t> holes;
  // Pages in the middle are in use.
  const std::vector<Ref> used = take(3 * 64 + 1);
  for (UnusedRecords::Run run = unused->take_idle(kPages); run.pages != 0; run = unused->take_idle(kPages)) {
    for (std::uint32_t i = 0; i < run.pages; ++i) CHECK(holes.insert(run.page + i).second);
    unused->add_holes(run);
  }
  CHECK(unused->holes() == holes.size());
  // 256 pages are kept.
  CHECK(holes.size() == kPages - 4 - 256);
  CHECK(*holes.rbegin() == kPages);
  CHECK(*holes.begin() == 5 + 256);
  SECTION("records of holes are not handed out") { CHECK(take(1000000).size() == (256 + 1) * 64 - 1); }
  SECTION("the lowest come back first") {
    take(1000000);
    std::uint64_t expected = *holes.begin();
    for (UnusedRecords::Run run = unused->take_holes(); run.pages != 0; run = unused->take_holes()) {
      CHECK(run.page == expected);
      expected += run.pages;
      unused->add_pages(run);
      const std::vector<Ref> back = take(run.pages * 64);
      REQUIRE(back.size() == run.pages * 64);
      CHECK(back.front() == run.first());
    }
    CHECK(expected == kPages + 1);
  }
}

TEST_CASE_METHOD(UnusedFixture, "unused records: pages that are used in part, or few, are no holes") {
  for (std::uint64_t page = 0; page < 256; ++page) add_page(page);
  CHECK(unused->take_idle(256).pages == 0);
  take(1000000);
  // All but one record of each page.
  for (Ref ref = 0; ref < 1000 * kOfPage; ref += 4) {
    if (ref % kOfPage != 0) unused->add(ref);
  }
  CHECK(unused->take_idle(1000).pages == 0);
  // Fewer idle pages than others.
  for (Ref page = 0; page < 400; ++page) unused->add(page * kOfPage);
  CHECK(unused->take_idle(1000).pages == 0);
  for (Ref page = 400; page < 600; ++page) unused->add(page * kOfPage);
  CHECK(unused->take_idle(1000).pages != 0);
}

TEST_CASE_METHOD(UnusedFixture, "unused records: without memory a record is lost and nothing else") {
  RealOs restore;
  add_page(3);
  os.map = [](void*, std::uint64_t, int, int, int, std::uint64_t, int* error) -> void* {
    *error = 12;
    return nullptr;
  };
  CHECK_FALSE(unused->add(1U << 30));
  CHECK(unused->count() == 64);
  CHECK(take(100).size() == 64);
}
