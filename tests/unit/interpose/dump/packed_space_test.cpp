#include "interpose/dump/packed_space.h"

#include <map>
#include <random>
#include <set>
#include <vector>

#include "interpose/system/hash_index.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::ChunkType;
using format::Ref;
using Want = PackedSpace::Want;

namespace {

struct PackedSpaceFixture {
  PackedSpaceFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  ~PackedSpaceFixture() {
    space->free_memory();
    dump->close();
  }
  Ref take(std::uint32_t units, Want want = Want::kNormal) {
    return space->take(ChunkType::kStacks, units, want, *dump);
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<PackedSpace> space;
};

}  // namespace

TEST_CASE_METHOD(PackedSpaceFixture, "a packed space knows its records, and nothing else") {
  CHECK_FALSE(space->mark(0));
  CHECK_FALSE(space->mark(1000));
  Ref first = take(5);
  Ref second = take(3);
  REQUIRE(first != 0);
  CHECK(second == first + 5);
  CHECK(space->is_record(first));
  CHECK(space->is_record(second));
  for (Ref ref : {first - 1, first + 1, first + 4, second + 1, second + 3, Ref{0}, ~Ref{0}}) {
    CHECK_FALSE(space->is_record(ref));
    CHECK_FALSE(space->mark(ref));
  }
  CHECK_FALSE(space->mark(first));  // marked when it was taken
  space->clear_marks();
  CHECK(space->mark(first));
  CHECK_FALSE(space->mark(first));
  std::vector<Ref> gone;
  space->sweep([&](Ref ref) { gone.push_back(ref); });
  CHECK(gone == std::vector<Ref>{second});
  CHECK(space->is_record(first));
  CHECK_FALSE(space->is_record(second));
  CHECK(space->used_bytes() == 5 * format::kRefUnit);
}

TEST_CASE_METHOD(PackedSpaceFixture,
                 "records of a packed space never overlap, whatever their sizes and whatever is freed") {
  space->set_limit(8 << 20, 1 << 20);
  std::mt19937 random(1);
  std::map<Ref, std::uint32_t> live;  // begin -> end
  std::uint64_t sweeps = 0;
  for (int i = 0; i < 300000; ++i) {
    const std::uint32_t units = random() % 50 == 0 ? 41 + random() % 400 : 2 + random() % 35;
    Ref ref = take(units);
    REQUIRE(ref != 0);
    auto next = live.lower_bound(ref);
    if (next != live.end()) REQUIRE(ref + units <= next->first);
    if (next != live.begin()) REQUIRE(std::prev(next)->second <= ref);
    live[ref] = ref + units;
    if (!space->wants_sweep()) continue;
    space->clear_marks();
    CHECK_FALSE(space->wants_sweep());
    for (const auto& [begin, end] : live) {
      if (random() % 8 == 0) space->mark(begin);
    }
    space->sweep([&](Ref gone) { REQUIRE(live.erase(gone) == 1); });
    std::uint64_t used = 0;
    for (const auto& [begin, end] : live) {
      REQUIRE(space->is_record(begin));
      used += end - begin;
    }
    REQUIRE(space->used_bytes() == used * format::kRefUnit);
    ++sweeps;
  }
  CHECK(sweeps > 20);
  CHECK(space->bytes() <= 2 << 20);
}

TEST_CASE_METHOD(PackedSpaceFixture,
                 "a packed space without a sweep grows up to its limit, and a little for the last records") {
  space->set_limit(2 << 20, 1 << 20);
  std::uint64_t taken = 0;
  while (take(20) != 0) ++taken;
  CHECK(taken * 20 * format::kRefUnit > (2 << 20) * 0.99);
  CHECK(space->wants_sweep());
  CHECK(dump->header()->file_bytes <= (2 << 20) + 8192);
  CHECK_FALSE(dump->stopped());
  std::uint64_t last = 0;
  while (take(4, Want::kLast) != 0) ++last;
  CHECK(last > 100);
  CHECK(dump->header()->file_bytes <= (2 << 20) + PackedSpace::kBeyond + 8192);
  // All of it may be used again, by records of another size.
  space->clear_marks();
  space->sweep([](Ref) {});
  std::uint64_t again = 0;
  while (take(60) != 0) ++again;
  CHECK(again * 60 * format::kRefUnit > (2 << 20) * 0.99);
}

TEST_CASE_METHOD(PackedSpaceFixture,
                 "where everything is needed a packed space does not ask for a sweep at every record") {
  space->set_limit(1 << 20, 1 << 20);
  std::uint64_t sweeps = 0;
  for (int i = 0; i < 100000; ++i) {
    take(10);
    if (!space->wants_sweep()) continue;
    space->sweep([](Ref) { FAIL("it had a mark"); });
    space->clear_marks();
    space->for_each_marked([](Ref) { FAIL("there is none"); });
    // Everything is needed.
    for (Ref ref = 0; ref < 1 << 17; ++ref) space->mark(ref);
    ++sweeps;
  }
  CHECK(sweeps > 1);
  CHECK(sweeps < 500);  // each looks at 6,000 records: 30 for each new one
}

TEST_CASE("an index keeps the chosen entries, and becomes small again") {
  Zeroed<HashIndex> index;
  constexpr std::uint32_t kEntries = 100000;
  for (std::uint32_t i = 1; i <= kEntries; ++i) REQUIRE(index->insert(mix(i % 1000), i, 0));
  auto keep = [](const HashIndex::Entry& entry) { return entry.value % 100 == 0; };
  auto check = [&] {
    CHECK(index->size() == kEntries / 100);
    std::set<std::uint32_t> found;
    index->for_each([&](const HashIndex::Entry& entry) { found.insert(entry.value); });
    CHECK(found.size() == kEntries / 100);
    for (std::uint32_t i = 1; i <= kEntries; ++i) {
      const bool there =
          index->find(mix(i % 1000), [&](const HashIndex::Entry& entry) { return entry.value == i; }) != nullptr;
      REQUIRE(there == (i % 100 == 0));
    }
  };
  SECTION("with memory") { index->filter(keep); }
  SECTION("without") {
    RealOs real;
    os.map = [](void*, std::uint64_t, int, int, int, std::uint64_t, int* error) -> void* {
      *error = 12;
      return nullptr;
    };
    index->filter(keep);
  }
  check();
  index->free_memory();
}
