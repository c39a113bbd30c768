#include "interpose/dump/event_tables.h"

#include <cstring>
#include <string>
#include <vector>

#include "interpose/dump/throw_table.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::ErrorRecord;
using format::ErrorType;
using format::ReleaseRecord;
using format::ThreadState;

namespace {
struct EventTablesFixture {
  EventTablesFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
};
}  // namespace

TEST_CASE_METHOD(EventTablesFixture, "equal refused frees share a record, and the table is bounded") {
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

TEST_CASE_METHOD(EventTablesFixture, "equal failed calls share a record, and the table is bounded") {
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

TEST_CASE_METHOD(EventTablesFixture,
                 "a charge counts the executable graphs of its calls, also of those that took nothing") {
  Zeroed<CallChargeTable> call_charges;
  format::CallChargeRecord charge = {};
  charge.stack = 100;
  charge.context = 1;
  charge.what = format::DriverMemory::kGraphExecutables;
  charge.last_ns = 7;
  const auto only = [&](std::uint32_t context) {
    const format::CallChargeRecord* found = nullptr;
    dump->for_each_record<format::CallChargeRecord>(format::ChunkType::kCallCharges,
                                                    [&](const format::CallChargeRecord& record) {
                                                      if (record.state != 0 && record.context == context)
                                                        found = &record;
                                                    });
    REQUIRE(found != nullptr);
    return *found;
  };
  REQUIRE(call_charges->count_made(charge, *dump));  // it took nothing
  CHECK(only(1).count == 0);
  CHECK(only(1).made == 1);
  format::CallChargeRecord grown = charge;
  grown.bytes = 4096;
  grown.last_ns = 9;
  REQUIRE(call_charges->add(grown, *dump));
  REQUIRE(call_charges->count_made(charge, *dump));
  CHECK(only(1).bytes == 4096);
  CHECK(only(1).count == 1);
  CHECK(only(1).last_ns == 9);
  CHECK(only(1).live == 2);
  call_charges->count_destroyed(charge, *dump);
  REQUIRE(call_charges->count_made(charge, *dump));
  CHECK(only(1).made == 3);
  CHECK(only(1).live == 2);
  CHECK(only(1).most_live == 2);

  // The context ends: its executables can still be destroyed.
  call_charges->end_context(1, *dump, [](const format::CallChargeRecord&) {});
  call_charges->count_destroyed(charge, *dump);
  CHECK(only(format::kNoIndex).live == 1);
  charge.context = 2;
  REQUIRE(call_charges->count_made(charge, *dump));
  call_charges->end_context(2, *dump, [](const format::CallChargeRecord&) {});
  CHECK(only(format::kNoIndex).made == 4);
  CHECK(only(format::kNoIndex).live == 2);
  for (int i = 0; i < 5; ++i) call_charges->count_destroyed(charge, *dump);
  CHECK(only(format::kNoIndex).live == 0);
}

TEST_CASE_METHOD(EventTablesFixture, "equal evidence is one record") {
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

TEST_CASE_METHOD(EventTablesFixture, "memory that went with a context is added up by stack") {
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
  release.name = 12;
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
  CHECK(sums == 3);  // another name is a sum of its own
}

TEST_CASE_METHOD(EventTablesFixture, "a thread's number is used again only when nothing names it any more") {
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

TEST_CASE_METHOD(EventTablesFixture, "a program with a thread for each task keeps a small table") {
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

TEST_CASE_METHOD(EventTablesFixture,
                 "thousands of threads at once, again and again, need no more records than threads") {
  Zeroed<ThreadTable> threads;
  std::vector<std::uint32_t> indexes;
  for (int round = 0; round < 50; ++round) {
    indexes.clear();
    for (int i = 0; i < 3000; ++i) indexes.push_back(threads->add(1, *dump));
    for (std::uint32_t index : indexes) {
      REQUIRE(index < 3000);
      threads->end(index, 2, 0, 0, *dump);
    }
  }
}

TEST_CASE_METHOD(EventTablesFixture, "threads with ever new names need one name's room each") {
  Zeroed<ThreadTable> threads;
  std::uint64_t bytes = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::uint32_t index = threads->add(1, *dump);
    const std::string name = "worker with a long name " + std::to_string(i) + std::string(i % 120, 'x');
    threads->set_name(index, name.c_str(), *dump);
    format::Ref ref = 0;
    std::memcpy(&ref, threads->record(index, *dump)->name + format::kThreadNameRef, sizeof(ref));
    const auto* text = dump->at<format::StringRecord>(ref);
    REQUIRE(std::string(reinterpret_cast<const char*>(text + 1), text->bytes) ==
            name.substr(0, ThreadTable::kMostName));
    threads->end(index, 2, 0, 0, *dump);
    if (i == 100) bytes = dump->header()->file_bytes;
  }
  CHECK(dump->header()->file_bytes == bytes);
}

TEST_CASE_METHOD(EventTablesFixture, "a table of ever new evidence is bounded, and says what it left out") {
  Zeroed<EvidenceTable> evidence;
  format::EvidenceRecord record = {};
  for (std::uint32_t i = 1; i <= 70000; ++i) {
    record.error = i;
    evidence->intern(record, *dump);
  }
  CHECK(dump->header()->dropped_others == 70000 - 65536);
  evidence->free_memory();
}

TEST_CASE_METHOD(EventTablesFixture,
                 "memory that goes with ever new contexts from ever new stacks is added up without them at last") {
  Zeroed<ReleaseTable> releases;
  ReleaseRecord release = {};
  release.kind = format::Kind::kDevice;
  release.count = 1;
  release.bytes = 10;
  std::uint64_t bytes = 0;
  for (std::uint32_t i = 1; i <= 100000; ++i) {
    release.stack = i;
    release.teardown_stack = i + 1;
    REQUIRE(releases->add(release, *dump));
    if (i == 20000) bytes = dump->header()->file_bytes;
  }
  CHECK(dump->header()->file_bytes == bytes);
  std::uint64_t count = 0;
  std::uint64_t without = 0;
  releases->for_each(*dump, [&](const ReleaseRecord& one) {
    count += one.count;
    if (one.stack == 0) without += one.count;
  });
  CHECK(count == 100000);
  CHECK(without == dump->header()->merged_stacks);
  CHECK(without == 100000 - 16384);
  releases->free_memory();
}

TEST_CASE_METHOD(EventTablesFixture, "ever new throws do not grow a full table, nor leave their texts behind") {
  Zeroed<ThrowTable> throws;
  std::uint64_t bytes = 0;
  int recorded = 0;
  for (std::uint32_t i = 1; i <= 50000; ++i) {
    const std::string what = "error number " + std::to_string(i);
    ThrowTable::Throw thrown = {"St9exception", i, 0, 0, 0, i};
    if (throws->count(thrown, *dump) == 0 && throws->add(thrown, what.c_str(), *dump) != 0) ++recorded;
    if (i == 2000) bytes = dump->header()->file_bytes;
  }
  CHECK(recorded == 1024);
  CHECK(dump->header()->file_bytes == bytes);
  throws->free_memory();
}
