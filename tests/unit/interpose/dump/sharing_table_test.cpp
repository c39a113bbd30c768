#include "interpose/dump/sharing_table.h"

#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::Ref;
using format::SharingRecord;
using format::SharingRole;
using format::SharingType;

namespace {

struct SharingTableFixture {
  SharingTableFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  bool add(Ref allocation, std::uint64_t key, SharingRole role = SharingRole::kExport) {
    SharingRecord sharing = {};
    sharing.type = SharingType::kIpcHandle;
    sharing.role = role;
    sharing.key = key;
    sharing.bytes = 100;
    sharing.allocation = allocation;
    return table->add(sharing, *dump);
  }
  std::vector<SharingRecord> valid() {
    std::vector<SharingRecord> records;
    dump->for_each_record<SharingRecord>(format::ChunkType::kSharings, [&](const SharingRecord& record) {
      if (record.state != 0) records.push_back(record);
    });
    return records;
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<SharingTable> table;
};

}  // namespace

TEST_CASE_METHOD(SharingTableFixture, "an export stays after its memory was freed, an import goes when it is closed") {
  CHECK(add(7, 1));
  CHECK(add(8, 2, SharingRole::kImport));
  REQUIRE(valid().size() == 2);
  CHECK(valid()[0].ended_ns == 0);
  table->end(7, 55, 900, *dump);
  table->end(8, 56, 901, *dump);
  REQUIRE(valid().size() == 1);
  CHECK(valid()[0].ended_ns == 55);
  CHECK(valid()[0].end_stack == 900);
  CHECK(valid()[0].role == SharingRole::kExport);
  // Another allocation in the same record has nothing to do with it.
  table->end(7, 99, 902, *dump);
  CHECK(valid()[0].ended_ns == 55);
}

TEST_CASE_METHOD(SharingTableFixture,
                 "equal exports are counted, and later memory with the same record is another export") {
  CHECK(add(7, 1));
  CHECK(add(7, 1));
  CHECK(table->count_again(1, SharingRole::kExport, *dump));
  CHECK_FALSE(table->count_again(1, SharingRole::kImport, *dump));
  CHECK_FALSE(table->count_again(2, SharingRole::kExport, *dump));
  REQUIRE(valid().size() == 1);
  CHECK(valid()[0].count == 3);
  table->end(7, 55, 0, *dump);
  CHECK_FALSE(table->count_again(1, SharingRole::kExport, *dump));
  CHECK(add(7, 2));
  REQUIRE(valid().size() == 2);
}

TEST_CASE_METHOD(SharingTableFixture, "the largest mapping of an import is its size") {
  add(7, 0, SharingRole::kImport);
  table->note_mapped(7, 40, *dump);
  table->note_mapped(7, 4000, *dump);
  table->note_mapped(7, 400, *dump);
  table->note_mapped(8, 9000, *dump);
  CHECK(valid()[0].bytes == 4000);
}

TEST_CASE_METHOD(SharingTableFixture, "when the table is full, the export that was freed first is given up") {
  for (Ref i = 1; i <= SharingTable::kCapacity; ++i) REQUIRE(add(i, i));
  CHECK_FALSE(add(100000, 1));
  table->end(20, 5, 0, *dump);
  table->end(10, 4, 0, *dump);
  CHECK(add(100001, 100001));
  bool has_10 = false, has_20 = false;
  for (const SharingRecord& record : valid()) {
    has_10 = has_10 || record.key == 10;
    has_20 = has_20 || record.key == 20;
    if (record.key == 100001) CHECK(record.state == 2);
  }
  CHECK_FALSE(has_10);
  CHECK(has_20);
  const std::uint64_t size = dump->header()->file_bytes;
  for (Ref i = 0; i < 1000; ++i) {
    CHECK(add(200000, 200000 + i, SharingRole::kImport));
    table->end(200000, 6, 0, *dump);
  }
  CHECK(dump->header()->file_bytes == size);
}

TEST_CASE("the key of a handle is that of its bytes, and never 0") {
  char handle[64] = {};
  CHECK(format::sharing_key(handle, sizeof(handle)) != 0);
  const std::uint64_t zeros = format::sharing_key(handle, sizeof(handle));
  handle[63] = 1;
  CHECK(format::sharing_key(handle, sizeof(handle)) != zeros);
  // Dumps of two versions are compared: the numbers never change.
  CHECK(format::sharing_key("culprit", 7) == 0x9805edd93c9ae35bULL);
}
