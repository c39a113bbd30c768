#include "interpose/event_tables.h"

#include "tests/catch.h"
#include "tests/unit/dump_fixture.h"

using namespace culprit;
using format::ErrorRecord;
using format::ErrorType;
using format::ReleaseRecord;
using format::ThreadState;

namespace {
struct Fixture {
  Fixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
};
}  // namespace

TEST_CASE_METHOD(Fixture, "equal refused frees share a record, and the table is bounded") {
  Zeroed<ErrorTable> errors;
  ErrorRecord error = {};
  error.type = ErrorType::kDoubleFree;
  error.code = 1;
  error.stack = 100;
  format::Ref first = errors->add(error, *dump);
  error.last_ns = 5;
  CHECK(errors->add(error, *dump) == first);
  CHECK(dump->at<ErrorRecord>(first)->count == 2);
  CHECK(dump->at<ErrorRecord>(first)->last_ns == 5);
  error.stack = 200;
  CHECK(errors->add(error, *dump) != first);
  std::uint64_t size = dump->header()->file_bytes;
  int dropped = 0;
  for (format::Ref stack = 300; stack < 100000; ++stack) {
    error.stack = stack;
    if (errors->add(error, *dump) == 0) ++dropped;
  }
  CHECK(dropped > 0);
  CHECK(dump->header()->file_bytes - size < 64 * 1024);
}

TEST_CASE_METHOD(Fixture, "equal failed calls share a record, and the table is bounded") {
  Zeroed<FailedCallTable> table;
  format::FailedCallRecord call = {};
  call.api = 3;
  call.code = 700;
  call.stack = 100;
  call.first_ns = call.last_ns = 4;
  format::Ref first = table->add(call, *dump);
  REQUIRE(first != 0);
  call.first_ns = call.last_ns = 5;
  CHECK(table->add(call, *dump) == first);
  const auto* record = dump->at<format::FailedCallRecord>(first);
  CHECK(record->count == 2);
  CHECK(record->first_ns == 4);
  CHECK(record->last_ns == 5);
  CHECK(record->state == 1);
  call.flags = format::kFailedInjected;
  CHECK(table->add(call, *dump) != first);
  call.flags = 0;
  call.code = 2;
  CHECK(table->add(call, *dump) != first);
  std::uint64_t size = dump->header()->file_bytes;
  int dropped = 0;
  for (format::Ref stack = 300; stack < 100000; ++stack) {
    call.stack = stack;
    if (table->add(call, *dump) == 0) ++dropped;
  }
  CHECK(dropped > 0);
  CHECK(dump->header()->file_bytes - size < 64 * 1024);
}

TEST_CASE_METHOD(Fixture, "equal evidence is one record") {
  Zeroed<EvidenceTable> table;
  format::EvidenceRecord evidence = {};
  evidence.thrown = 7;
  evidence.thrown_owner = 2;
  format::Ref first = table->intern(evidence, *dump);
  REQUIRE(first != 0);
  CHECK(table->intern(evidence, *dump) == first);
  CHECK(dump->at<format::EvidenceRecord>(first)->thrown_owner == 2);
  evidence.flags = format::kEvidenceEarlier;
  CHECK(table->intern(evidence, *dump) != first);
}

TEST_CASE("a cancelled thread is found once, and many of them push the oldest out") {
  Zeroed<CancelTable> cancels;
  auto thread = [](std::uint64_t number) { return static_cast<pthread_t>(number * 64); };
  Cancel cancel;
  CHECK_FALSE(cancels->take(thread(1), &cancel));
  for (std::uint64_t i = 1; i <= 100; ++i) cancels->add({thread(i), static_cast<format::Ref>(i), i});
  CHECK_FALSE(cancels->take(thread(36), &cancel));
  REQUIRE(cancels->take(thread(37), &cancel));
  CHECK(cancel.stack == 37);
  CHECK(cancel.time_ns == 37);
  CHECK_FALSE(cancels->take(thread(37), &cancel));
}

TEST_CASE_METHOD(Fixture, "what went with a context is added up by stack") {
  Zeroed<ReleaseTable> releases;
  ReleaseRecord release = {};
  release.stack = 10;
  release.teardown_stack = 20;
  release.count = 1;
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    release.bytes = i;
    release.first_ns = release.last_ns = 5000 - i;
    REQUIRE(releases->add(release, *dump));
  }
  release.stack = 11;
  REQUIRE(releases->add(release, *dump));
  int sums = 0;
  releases->for_each(*dump, [&](const ReleaseRecord& record) {
    ++sums;
    if (record.stack != 10) return;
    CHECK(record.count == 1000);
    CHECK(record.bytes == 500500);
    CHECK(record.first_ns == 4000);
    CHECK(record.last_ns == 4999);
  });
  CHECK(sums == 2);
}

TEST_CASE_METHOD(Fixture, "a thread's number is used again only when nothing names it any more") {
  Zeroed<ThreadTable> threads;
  std::uint32_t first = threads->add(1, *dump);
  threads->end(first, 2, 1, 0, *dump);
  CHECK(threads->record(first, *dump)->state == ThreadState::kEnded);
  std::uint32_t second = threads->add(3, *dump);
  CHECK(second != first);
  SECTION("another thread frees what it left") {
    threads->count_gone_elsewhere(first, *dump);
    CHECK(threads->add(4, *dump) == first);
    CHECK(threads->record(first, *dump)->state == ThreadState::kAlive);
  }
  SECTION("it stays while its allocation lives") { CHECK(threads->add(4, *dump) != first); }
}

TEST_CASE_METHOD(Fixture, "a program with a thread for each task keeps a small table") {
  Zeroed<ThreadTable> threads;
  std::uint64_t size = 0;
  for (int i = 0; i < 100000; ++i) {
    std::uint32_t index = threads->add(1, *dump);
    REQUIRE(index != format::kNoIndex);
    threads->end(index, 2, 1, 1, *dump);
    if (i == 0) size = dump->header()->file_bytes;
  }
  CHECK(dump->header()->file_bytes == size);
}
