#include "interpose/owners/made_list.h"

#include <random>
#include <set>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

// A list beside a plain vector of the same entries.
struct MadeListFixture {
  ~MadeListFixture() { list->free_memory(); }

  bool lives(const MadeEntry& made) const { return ended.count({made.record, made.generation}) == 0; }
  auto are_live() {
    return [this](const MadeEntry& made) { return lives(made); };
  }
  void add(MadeEntry made) {
    if (!list->has_room()) list->make_room(false);
    REQUIRE(list->has_room());
    list->add(made);
    model.push_back(made);
  }
  // An entry that may follow any other one.
  MadeEntry any() {
    clock += random() % 3 == 0 ? random() % 2000000 : random() % 4;
    const std::uint32_t generation = random() % 8 == 0 ? random() & 0x3fffffff : random() % 300;
    return {static_cast<format::Ref>((random() & 0x3fffffff) * 4), generation, random() % MadeList::kPaths & 0x7fffffff,
            random() % 2 == 0, clock};
  }
  void check() {
    REQUIRE(list->count() == model.size());
    std::size_t left = model.size();
    for (MadeList::Walk walk(*list); walk.next();) {
      REQUIRE(left > 0);
      REQUIRE(same(walk.entry(), model[--left]));
    }
    REQUIRE(left == 0);
    if (!model.empty()) REQUIRE(list->newest().record == model.back().record);
  }
  static bool same(const MadeEntry& a, const MadeEntry& b) {
    return a.record == b.record && a.generation == b.generation && a.path == b.path && a.in_frames == b.in_frames &&
           a.clock == b.clock;
  }

  Zeroed<MadeList> list;
  std::vector<MadeEntry> model;
  std::set<std::pair<format::Ref, std::uint32_t>> ended;
  std::uint32_t clock = 0;
  std::mt19937 engine{7};
  std::uint32_t random() { return static_cast<std::uint32_t>(engine()); }
};

}  // namespace

TEST_CASE_METHOD(MadeListFixture, "made list: packed entries are what they were, whatever the differences", "[paths]") {
  for (int i = 0; i < 60000; ++i) add(any());
  CHECK(list->has_packed());
  check();
  SECTION("they end from the newest on") {
    for (int i = 0; i < 55000; ++i) {
      if (i % 2 == 0) {
        list->pop();
      } else {
        list->pop_if(model.back().record);
      }
      model.pop_back();
      list->pop_if(1);  // no record
    }
    check();
    for (int i = 0; i < 20000; ++i) add(any());
    check();
  }
  SECTION("their path and their mark change in place") {
    std::size_t left = model.size();
    for (MadeList::Walk walk(*list); walk.next();) {
      MadeEntry& made = model[--left];
      made.path = (made.path + 4711) % MadeList::kPaths;
      made.in_frames = left % 3 == 0;
      list->set_path(walk.place(), made.path);
      list->set_in_frames(walk.place(), made.in_frames);
    }
    check();
  }
  SECTION("nothing is left afterwards") {
    list->clear();
    model.clear();
    check();
    CHECK(list->newest().clock == 0);
    add(any());
    check();
  }
}

TEST_CASE_METHOD(MadeListFixture, "made list: what ended is dropped in place, and the rest stays in its order",
                 "[paths]") {
  const unsigned share = GENERATE(0U, 1U, 50U, 99U, 100U);
  CAPTURE(share);
  // Runs of small differences too, whose sums need another byte.
  for (int i = 0; i < 30000; ++i) {
    const bool small = i / 1000 % 2 == 0 && !model.empty();
    add(small ? MadeEntry{model.back().record + 4 * (random() % 70), 1, 3, false, ++clock} : any());
  }
  std::vector<MadeEntry> live;
  for (const MadeEntry& made : model) {
    if (random() % 100 < share) ended.insert({made.record, made.generation});
  }
  for (const MadeEntry& made : model) {
    if (lives(made)) live.push_back(made);
  }
  std::vector<MadeEntry> visited;
  list->drop_all(are_live(), [&](const MadeEntry& made) { visited.push_back(made); });
  model = live;
  check();
  REQUIRE(visited.size() == live.size());
  CHECK(std::equal(visited.rbegin(), visited.rend(), live.begin(), same));
  for (int i = 0; i < 10000; ++i) add(any());
  check();
}

TEST_CASE_METHOD(MadeListFixture, "made list: a million records that were never used take 3 bytes each, and others 8",
                 "[paths]") {
  constexpr std::uint32_t kCount = 1000000;
  RealOs restore;
  static std::int64_t mapped = 0;
  mapped = 0;
  static OsCalls real;
  real = os;
  os.map = [](void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset, int* error) {
    mapped += static_cast<std::int64_t>(bytes);
    return real.map(address, bytes, protection, flags, fd, offset, error);
  };
  os.unmap = [](void* address, std::uint64_t bytes) {
    mapped -= static_cast<std::int64_t>(bytes);
    return real.unmap(address, bytes);
  };
  auto fill = [&](auto next) {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      if (!list->has_room()) list->make_room(false);
      list->add(next(i));
    }
  };
  // A power of two holds them.
  SECTION("never used") {
    fill([](std::uint32_t i) { return MadeEntry{i * 4 + 4, 1, i / 1000 % 64, false, i + 1}; });
    CHECK(mapped <= (4 << 20) + (64 << 10));
  }
  SECTION("in any order") {
    fill([&](std::uint32_t i) {
      return MadeEntry{random() % kCount * 4, random() % 60, random() % 64, false, i * 5 + random() % 5};
    });
    CHECK(mapped <= (8 << 20) + (64 << 10));
  }
}

TEST_CASE_METHOD(MadeListFixture, "made list: without memory entries are kept as long as there is room", "[paths]") {
  RealOs restore;
  add(any());
  while (list->has_room()) add(any());
  os.map = [](void*, std::uint64_t, int, int, int, std::uint64_t, int* error) -> void* {
    *error = 12;
    return nullptr;
  };
  list->make_room(false);
  CHECK_FALSE(list->has_room());
  check();
}
