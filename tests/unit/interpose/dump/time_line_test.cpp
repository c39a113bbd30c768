#include "interpose/dump/time_line.h"

#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::kTimeLineBuckets;
using format::TimeLineRecord;

namespace {

struct TimeLineFixture {
  TimeLineFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  const TimeLineRecord& line(std::uint32_t device = 0) {
    const TimeLineRecord* found = nullptr;
    dump->for_each_record<TimeLineRecord>(format::ChunkType::kTimeLines, [&](const TimeLineRecord& record) {
      if (record.state != 0 && record.device == device) found = &record;
    });
    REQUIRE(found != nullptr);
    return *found;
  }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<TimeLines> lines;
};

}  // namespace

TEST_CASE_METHOD(TimeLineFixture, "a time line keeps the lowest and the highest value of each stretch, and the peak") {
  const std::uint64_t bucket = 1 << 16;
  lines->note(0, 500, 10, *dump);
  lines->note(0, 900, bucket + 1, *dump);
  lines->note(0, 100, bucket + 2, *dump);
  lines->note(0, 300, 4 * bucket, *dump);
  const TimeLineRecord& record = line();
  CHECK(record.state % 2 == 0);
  CHECK(record.bucket_ns == bucket);
  REQUIRE(record.used == 5);
  CHECK(record.buckets[0].high == 500);
  CHECK(record.buckets[0].low == 0);
  CHECK(record.buckets[1].high == 900);
  CHECK(record.buckets[1].low == 100);
  CHECK(record.buckets[1].last == 100);
  // Without events the last value continues.
  CHECK(record.buckets[3].low == 100);
  CHECK(record.buckets[3].high == 100);
  CHECK(record.buckets[4].low == 100);
  CHECK(record.buckets[4].high == 300);
  CHECK(record.peak_bytes == 900);
  CHECK(record.peak_ns == bucket + 1);
}

TEST_CASE_METHOD(TimeLineFixture, "a time line grows coarser and not longer") {
  const std::uint64_t step = 1 << 16;
  for (std::uint64_t i = 0; i < 40000; ++i) lines->note(0, i % 1000 == 777 ? 5000 : i % 7, i * step, *dump);
  const TimeLineRecord& record = line();
  CHECK(record.used <= kTimeLineBuckets);
  CHECK(record.used > kTimeLineBuckets / 2);
  CHECK(record.bucket_ns == step * 128);
  CHECK(record.buckets[777 / 128].high == 5000);
  CHECK(record.buckets[777 / 128 + 2].high == 6);
  CHECK(record.peak_ns == 777 * step);
  // A day later, with nothing in between.
  lines->note(0, 42, 86400ULL * 1000000000, *dump);
  CHECK(record.used <= kTimeLineBuckets);
  CHECK(record.buckets[record.used - 1].last == 42);
  CHECK(record.peak_bytes == 5000);
}

TEST_CASE_METHOD(TimeLineFixture, "a time line takes what comes late, from any device") {
  lines->note(0, 10, 100 << 16, *dump);
  lines->note(0, 20, 0, *dump);  // another thread read the clock earlier
  CHECK(line().used == 101);
  CHECK(line().buckets[100].last == 20);
  CHECK(line().buckets[0].high == 0);
  lines->note(1, 30, 5, *dump);
  CHECK(line(1).buckets[0].last == 30);
  CHECK(line(0).peak_bytes == 20);
  lines->note(255, 30, 5, *dump);  // no such device
}

TEST_CASE_METHOD(TimeLineFixture, "a value between those that a stretch has is its last one, and changes no other") {
  const std::uint64_t bucket = 1 << 16;
  lines->note(0, 900, 10, *dump);
  lines->note(0, 100, 20, *dump);
  const std::uint32_t state = line().state;
  lines->note(0, 400, 30, *dump);
  CHECK(line().state == state);  // by a store, without the lock
  CHECK(line().buckets[0].last == 400);
  CHECK(line().buckets[0].low == 0);
  CHECK(line().buckets[0].high == 900);
  lines->note(0, 500, bucket, *dump);
  CHECK(line().buckets[1].low == 400);
  CHECK(line().buckets[1].high == 500);
  lines->note(0, 300, bucket + 1, *dump);
  CHECK(line().buckets[1].low == 300);
  CHECK(line().peak_bytes == 900);
}

TEST_CASE_METHOD(TimeLineFixture, "threads that note values at once keep the lowest, the highest and the peak") {
  constexpr std::uint64_t kThreads = 4, kRounds = 20000;
  std::vector<std::thread> threads;
  for (std::uint64_t number = 0; number < kThreads; ++number) {
    threads.emplace_back([&, number] {
      for (std::uint64_t i = 0; i < kRounds; ++i) lines->note(0, 1000 + (i * 7 + number) % 500, i << 12, *dump);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const TimeLineRecord& record = line();
  CHECK(record.peak_bytes == 1499);
  CHECK(record.used <= kTimeLineBuckets);
  for (std::uint32_t i = 1; i < record.used; ++i) {
    const std::uint64_t low = record.buckets[i].low, high = record.buckets[i].high;
    CHECK((low >= 1000 && low <= high && high <= 1499));
  }
}
