#include "interpose/dump/record_index.h"

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

struct IndexFixture {
  IndexFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  ~IndexFixture() { index->free_memory(); }

  format::Ref record(std::uint64_t handle, std::uint8_t device = 0) {
    const format::Ref ref = dump->allocate_records(format::ChunkType::kAllocations, 1, nullptr);
    REQUIRE(ref != 0);
    dump->at<format::AllocationRecord>(ref)->handle = handle;
    dump->at<format::AllocationRecord>(ref)->device = device;
    return ref;
  }
  format::Ref put(std::uint64_t handle, std::uint32_t space = 1, std::uint8_t device = 0) {
    const format::Ref ref = record(handle, device);
    format::Ref replaced = 0;
    REQUIRE(index->put(handle, space, device, ref, *dump, &replaced));
    CHECK(replaced == 0);
    return ref;
  }
  format::Ref find(std::uint64_t handle, std::uint32_t space = 1) {
    const RecordIndex::Slot* slot = index->find(handle, space, *dump).slot;
    return slot == nullptr ? 0 : RecordIndex::ref_of(*slot);
  }

  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<RecordIndex> index;
};

}  // namespace

TEST_CASE_METHOD(IndexFixture, "record index: it does what a map does, through growth and erasure", "[one-thread]") {
  using Key = std::tuple<std::uint64_t, std::uint32_t, std::uint8_t>;
  std::map<Key, format::Ref> model;
  std::mt19937_64 random(7);
  for (int step = 0; step < 300000; ++step) {
    const std::uint64_t handle = random() % 6000 * 512 + 0x700000000000;
    const std::uint32_t space = static_cast<std::uint32_t>(random() % 3 | random() % 2 << 8);
    const auto device = static_cast<std::uint8_t>(random() % 2);
    const Key key = {handle, space, device};
    const auto known = model.find(key);
    if (random() % 3 != 0) {
      const format::Ref ref = known == model.end() ? record(handle, device) : known->second;
      format::Ref replaced = 0;
      REQUIRE(index->put(handle, space, device, ref, *dump, &replaced));
      REQUIRE(replaced == (known == model.end() ? 0 : known->second));
      model[key] = ref;
    } else {
      RecordIndex::Slot* slot = index->find(
          handle, space, *dump, [&](const format::AllocationRecord& candidate) { return candidate.device == device; });
      REQUIRE((slot != nullptr) == (known != model.end()));
      if (slot == nullptr) continue;
      REQUIRE(RecordIndex::ref_of(*slot) == known->second);
      index->erase(slot);
      model.erase(known);
    }
  }
  REQUIRE(index->size() == model.size());
  for (const auto& [key, ref] : model) {
    const std::uint8_t other = std::get<2>(key) ^ 1;
    const bool both = model.count({std::get<0>(key), std::get<1>(key), other}) != 0;
    const RecordIndex::Found found = index->find(std::get<0>(key), std::get<1>(key), *dump);
    REQUIRE(found.slot != nullptr);
    REQUIRE(found.several == both);
    REQUIRE(RecordIndex::space_of(*found.slot, std::get<0>(key)) == std::get<1>(key));
  }
  std::uint32_t walked = 0;
  index->for_each([&](RecordIndex::Slot) { ++walked; });
  CHECK(walked == model.size());
}

TEST_CASE_METHOD(IndexFixture, "record index: from 2,300 entries on they take 9 to 11 bytes each") {
  std::uint64_t at = 0x7f0000000000;
  std::mt19937_64 random(7);
  // Handles in a row, or anywhere: only those of one shard of the live table.
  const bool in_a_row = GENERATE(true, false);
  double worst = 0;
  std::set<std::uint64_t> known;
  while (index->size() < 40000) {
    const std::uint64_t handle = in_a_row ? at += 512 : random() & 0x7ffffffffe00;
    if (quick_hash(handle) >> 56 != 77 || !known.insert(handle).second) continue;
    put(handle);
    if (index->size() < 2300) continue;
    const double each = static_cast<double>(index->bytes()) / index->size();
    REQUIRE(each > 9);
    if (each > worst) worst = each;
  }
  CAPTURE(in_a_row);
  CHECK(worst < 11);
}

TEST_CASE_METHOD(IndexFixture, "record index: handles whose hashes are nearly equal find room") {
  // With the inverse of the hash's factor, handles are made from hashes.
  std::uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - quick_hash(1) * inverse;
  REQUIRE(quick_hash(inverse) == 1);
  const std::uint64_t mark = GENERATE(0ULL, 0x7fffff00ULL, 0xfffff000ULL);
  std::set<format::Ref> made;
  std::vector<std::uint64_t> handles;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    // Three of each mark.
    handles.push_back(((mark + i / 3) << 24 | i) * inverse);
    made.insert(put(handles.back()));
  }
  for (std::uint64_t handle : handles) {
    const format::Ref found = find(handle);
    REQUIRE(made.count(found) == 1);
    REQUIRE(dump->at<format::AllocationRecord>(found)->handle == handle);
  }
  CHECK(index->bytes() <= 16 * 4096);
  for (std::uint64_t handle : handles) index->erase(index->find(handle, 1, *dump).slot);
  CHECK(index->size() == 0);
  CHECK(find(handles[0]) == 0);
}

TEST_CASE_METHOD(IndexFixture, "record index: an index that cannot grow says so and keeps what it has") {
  put(512);
  RealOs restore;
  os.map = [](void*, std::uint64_t, int, int, int, std::uint64_t, int* error) -> void* {
    *error = 12;
    return nullptr;
  };
  // Records are there already: only the index needs memory.
  const format::Ref first = record(0);
  format::Ref replaced = 0;
  std::uint64_t stored = 1;
  while (stored < 5000 && index->insert((stored + 1) * 512, 1, first)) ++stored;
  CHECK(stored < 512);
  CHECK(index->size() == stored);
  CHECK_FALSE(index->put(1, 1, 0, first, *dump, &replaced));
  CHECK(find(512) != 0);
}

TEST_CASE_METHOD(IndexFixture, "record index: a repair keeps one copy of each valid entry") {
  std::vector<format::Ref> made;
  for (std::uint64_t i = 1; i <= 400; ++i) made.push_back(put(i * 512));
  // As a jump out of an insertion leaves it: entries from here on were moved by one, and one is there twice.
  RecordIndex::Slot* slot = index->find(200 * 512, 1, *dump).slot;
  RecordIndex::Slot* free = slot;
  while (*free != 0) ++free;
  for (; free != slot; --free) *free = free[-1];
  const format::Ref gone = made[7];
  REQUIRE(index->repair([&](RecordIndex::Slot one) { return RecordIndex::ref_of(one) != gone; }));
  CHECK(index->size() == 399);
  for (std::uint64_t i = 1; i <= 400; ++i) CHECK(find(i * 512) == (made[i - 1] == gone ? 0 : made[i - 1]));
}
