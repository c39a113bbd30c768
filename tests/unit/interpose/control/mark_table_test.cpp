// The names of marks, and the ring of the times at which they were set.
#include "interpose/control/mark_table.h"

#include <string>
#include <vector>

#include "interpose/format/chunks.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

namespace culprit {
namespace {

struct MarkFixture {
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<MarkTable> table;
  MarkFixture() { REQUIRE(dump->start((folder.path() / "marks.dump").c_str()) == 0); }
  ~MarkFixture() { table->free_memory(); }
  MarkFixture(const MarkFixture&) = delete;
  MarkFixture& operator=(const MarkFixture&) = delete;

  NotedMark note(const std::string& name, format::MarkKind kind, std::uint64_t now) {
    return table->note(name.c_str(), static_cast<std::uint32_t>(name.size()), kind, 0, now, true, *dump);
  }
  std::vector<format::MarkTimeRecord> times() {
    std::vector<format::MarkTimeRecord> valid;
    dump->for_each_record<format::MarkTimeRecord>(format::ChunkType::kMarkTimes, [&](const auto& record) {
      if (record.state != 0) valid.push_back(record);
    });
    return valid;
  }
};

}  // namespace

TEST_CASE_METHOD(MarkFixture, "a mark that is set again has the next number and its time is kept") {
  CHECK(note("step", format::MarkKind::kMoment, 10).number == 1);
  CHECK(note("step", format::MarkKind::kMark, 11).number == 1);  // a mark of the same name is another one
  const NotedMark again = note("step", format::MarkKind::kMoment, 12);
  CHECK(again.number == 2);
  CHECK(again.time_ns == 12);
  note("range", format::MarkKind::kRange, 13);
  const std::vector<format::MarkTimeRecord> kept = times();
  REQUIRE(kept.size() == 3);
  CHECK(kept[2].mark == again.record);
  CHECK(kept[2].number == 2);
  CHECK(kept[2].time_ns == 12);
}

TEST_CASE_METHOD(MarkFixture, "the newest times of marks replace the oldest") {
  for (std::uint64_t i = 1; i <= 3 * format::kKeptMarkTimes + 1; ++i) note("step", format::MarkKind::kMoment, i);
  const std::vector<format::MarkTimeRecord> kept = times();
  REQUIRE(kept.size() == format::kKeptMarkTimes);
  CHECK(kept[0].number == 3 * format::kKeptMarkTimes + 1);
  CHECK(kept[1].number == 2 * format::kKeptMarkTimes + 2);
  CHECK(kept[0].state != kept[1].state);
  // One chunk, which an older command may leave out.
  CHECK(format::chunk_flags(format::ChunkType::kMarkTimes) == format::kChunkMayBeSkipped);
  CHECK(format::chunk_flags(format::ChunkType::kMarks) == 0);
}

}  // namespace culprit
