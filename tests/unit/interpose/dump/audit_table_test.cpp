#include "interpose/dump/audit_table.h"

#include <cstring>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::AuditRecord;

namespace {

struct AuditTableFixture {
  AuditTableFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  std::vector<AuditRecord> records() {
    std::vector<AuditRecord> list;
    dump->for_each_record<AuditRecord>(format::ChunkType::kAudits, [&](const AuditRecord& record) {
      if (record.state == 1) list.push_back(record);
    });
    return list;
  }
  static AuditedCall call(std::uint32_t id, bool recorded, format::Ref stack = 0) {
    AuditedCall one = {};
    one.id = id;
    one.symbol = "cuMemAlloc_v2";
    one.recorded = recorded;
    one.stack = stack;
    one.bytes = 100;
    return one;
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<AuditTable> table;
};

}  // namespace

TEST_CASE_METHOD(AuditTableFixture, "the calls of a function are counted in one record", "[audit]") {
  for (int i = 0; i < 3; ++i) CHECK(table->add(call(7, true), *dump));
  CHECK(table->add(call(8, true), *dump));
  const std::vector<AuditRecord> list = records();
  REQUIRE(list.size() == 2);
  CHECK(list[0].calls == 3);
  CHECK(list[0].not_recorded == 0);
  CHECK(list[0].bytes == 0);
  CHECK(list[1].calls == 1);
}

TEST_CASE_METHOD(AuditTableFixture, "calls that were not recorded have a record for each of a few stacks", "[audit]") {
  CHECK(table->add(call(7, true), *dump));
  CHECK(table->add(call(7, false, 100), *dump));
  CHECK(table->add(call(7, false, 100), *dump));
  for (format::Ref stack = 200; stack < 300; ++stack) CHECK(table->add(call(7, false, stack), *dump));
  CHECK(table->add(call(7, false), *dump));
  const std::vector<AuditRecord> list = records();
  REQUIRE(list.size() == 1 + format::kMostAuditStacks);
  CHECK(list[0].stack == 0);
  CHECK(list[0].calls == 104);
  CHECK(list[0].not_recorded == 103);
  CHECK(list[0].bytes == 10300);
  CHECK(list[1].stack == 100);
  CHECK(list[1].not_recorded == 2);
  CHECK(list[1].bytes == 200);
}
