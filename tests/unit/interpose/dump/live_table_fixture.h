// A live table with a dump in a temporary folder.
#pragma once

#include "interpose/dump/live_table.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

namespace culprit {

struct LiveTableFixture {
  LiveTableFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  format::AllocationRecord allocation(std::uint64_t handle, std::uint64_t bytes, std::uint8_t device = 0,
                                      format::Kind kind = format::Kind::kDevice) {
    format::AllocationRecord record = {};
    record.handle = handle;
    record.bytes = bytes;
    record.device = device;
    record.kind = kind;
    return record;
  }
  std::uint64_t count() {
    std::uint64_t live = 0;
    table->sweep(*dump, [&](format::AllocationRecord&, format::Ref, EndedBy*) {
      ++live;
      return false;
    });
    return live;
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<LiveTable> table;
};

}  // namespace culprit
