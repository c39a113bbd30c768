#include "interpose/dump/young_records.h"

#include <errno.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/interpose/dump/live_table_fixture.h"

using namespace culprit;
using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

constexpr std::uint8_t kSpace = space_of(Kind::kStreamOrdered);

struct YoungRecordsFixture : LiveTableFixture {
  YoungRecordsFixture() {
    prepare_to_meet_threads();
    table->start_young();
    table->begin_thread(&*own);
  }
  AllocationRecord allocation(std::uint64_t handle) {
    AllocationRecord record = LiveTableFixture::allocation(handle, 256, 0, Kind::kStreamOrdered);
    record.extra = handle * 2;
    return record;
  }
  Ref take(std::uint64_t handle, ThreadRecords* taker) {
    return table->take(
        kSpace, handle, [] { return std::uint8_t{0}; }, *dump, taker);
  }
  RealOs restore;
  Zeroed<ThreadRecords> own;
};

// Counts how often other threads were asked to release their records.
int barriers = 0;
int (*real_membarrier)(int);
void count_barriers() {
  barriers = 0;
  real_membarrier = os.membarrier;
  os.membarrier = [](int command) {
    ++barriers;
    return real_membarrier(command);
  };
}

}  // namespace

TEST_CASE_METHOD(YoungRecordsFixture, "records that a thread makes and ends at once need no other thread", "[young]") {
  count_barriers();
  for (std::uint64_t i = 1; i <= 1000; ++i) {
    Ref ref = table->add(allocation(i * 512), *dump, &*own);
    REQUIRE(ref != 0);
    REQUIRE(take(i * 512, &*own) == ref);
    REQUIRE(take(i * 512 + 8, nullptr) == 0);
    table->retire(ref, *dump, {}, &*own);
  }
  CHECK(barriers == 0);
  CHECK(count() == 0);
}

TEST_CASE_METHOD(YoungRecordsFixture, "records that a thread keeps are found by all threads", "[young]") {
  std::vector<Ref> made;
  for (std::uint64_t i = 1; i <= 6; ++i) made.push_back(table->add(allocation(i * 512), *dump, &*own));
  SECTION("a free in another thread takes it, once") {
    Zeroed<ThreadRecords> other;
    table->begin_thread(&*other);
    for (std::uint64_t i = 6; i >= 1; --i) {
      CHECK(take(i * 512, &*other) == made[i - 1]);
      CHECK(take(i * 512, &*own) == 0);
    }
    CHECK(count() == 0);
  }
  SECTION("a look-up") {
    for (std::uint64_t i = 1; i <= 6; ++i) CHECK(table->find(kSpace, i * 512, 0, *dump) == made[i - 1]);
    CHECK(take(5 * 512, &*own) == made[4]);
    CHECK(table->find(kSpace, 5 * 512, 0, *dump) == 0);
  }
  SECTION("an address inside it") { CHECK(table->find_containing(kSpace, 6 * 512 + 100, *dump) == made[5]); }
  SECTION("a look at all") { CHECK(count() == 6); }
  SECTION("another kind of handle with the same number is something else") {
    CHECK(table->find(space_of(Kind::kEvent), 6 * 512, 0, *dump) == 0);
  }
  SECTION("the thread ends") {
    table->end_thread(&*own, *dump);
    for (std::uint64_t i = 1; i <= 6; ++i) CHECK(take(i * 512, nullptr) == made[i - 1]);
  }
  SECTION("recording stops and goes on") {
    table->pause_young(*dump);
    CHECK(table->find(kSpace, 6 * 512, 0, *dump) == made[5]);
    Ref while_paused = table->add(allocation(7 * 512), *dump, &*own);
    CHECK(take(7 * 512, nullptr) == while_paused);
    table->resume_young();
    Ref after = table->add(allocation(8 * 512), *dump, &*own);
    CHECK(take(8 * 512, nullptr) == after);
    CHECK(count() == 6);
  }
}

TEST_CASE_METHOD(YoungRecordsFixture, "a thread whose memory others free is asked seldom", "[young]") {
  table->end_thread(&*own, *dump);
  std::thread([&] { table->begin_thread(&*own); }).join();  // this thread is another one
  count_barriers();
  for (std::uint64_t i = 1; i <= 100000; ++i) {
    Ref ref = table->add(allocation(i * 512), *dump, &*own);
    REQUIRE(take(i * 512, nullptr) == ref);
    table->retire(ref, *dump);
  }
  CHECK(barriers > 0);
  CHECK(barriers < 20);
}

TEST_CASE_METHOD(YoungRecordsFixture, "a thread that looks at all records does not wait for itself", "[young]") {
  for (std::uint64_t i = 1; i <= 5; ++i) table->add(allocation(i * 512), *dump, &*own);
  count_barriers();
  CHECK(count() == 5);
  CHECK(table->find_containing(kSpace, 5 * 512 + 100, *dump) != 0);
  CHECK(barriers == 0);
}

TEST_CASE_METHOD(YoungRecordsFixture, "an address that comes again replaces what was there unseen, even late",
                 "[young]") {
  for (std::uint64_t i = 1; i <= 5; ++i) table->add(allocation(i * 512), *dump, &*own);
  table->add(allocation(512), *dump, &*own);  // the first one is in the index by now
  CHECK(count() == 5);
}

TEST_CASE("a kernel that has no such barrier, or forbids it later, costs speed and nothing else", "[young]") {
  RealOs restore;
  SECTION("from the beginning") {
    os.membarrier = [](int) { return -ENOSYS; };
    YoungRecordsFixture fixture;
    Ref ref = fixture.table->add(fixture.allocation(512), *fixture.dump, &*fixture.own);
    CHECK(fixture.take(512, nullptr) == ref);
  }
  SECTION("later") {
    YoungRecordsFixture fixture;
    Ref ref = fixture.table->add(fixture.allocation(512), *fixture.dump, &*fixture.own);
    os.membarrier = [](int) { return -EPERM; };
    CHECK(fixture.take(512, nullptr) == ref);
  }
}

TEST_CASE_METHOD(YoungRecordsFixture, "memory is made with what is at hand, or nothing changes", "[young]") {
  const auto make = [&](std::uint64_t handle) {
    return table->make_at_hand(
        handle, 0, [](AllocationRecord* record) { record->kind = Kind::kStreamOrdered; }, *dump, &*own);
  };
  const auto end = [&](Ref ref) { table->retire(ref, *dump, {0, 0, false, true}, &*own); };
  // No record ended long enough ago: reports of double frees need the last ones.
  REQUIRE(make(512) == 0);
  std::vector<Ref> ended;
  for (std::uint64_t i = 1; i <= 129; ++i) {
    const Ref ref = table->add(allocation(i * 512), *dump, &*own);
    REQUIRE(table->take_young(i * 512, *dump, &*own) == ref);
    REQUIRE(static_cast<format::AllocationState>(dump->at<AllocationRecord>(ref)->state & 3) ==
            format::AllocationState::kFreeing);
    REQUIRE(LiveTable::retires_at_hand(*own));
    end(ref);
    ended.push_back(ref);
  }
  const Ref ref = make(512);
  CHECK(ref == ended.front());
  CHECK(make(1024) == 0);
  CHECK(table->take_young(1024, *dump, &*own) == 0);
  SECTION("found by the thread") {
    CHECK(table->take_young(512, *dump, &*own) == ref);
    CHECK(count() == 0);
    end(ref);
  }
  SECTION("found by another thread, after which the slots are closed") {
    CHECK(take(512, nullptr) == ref);
    end(ref);
    CHECK(table->take_young(512, *dump, &*own) == 0);
    table->retire(table->add(allocation(1 << 20), *dump, nullptr), *dump, {0, 0, false, true}, &*own);
    const Ref next = make(1024);
    REQUIRE(next != 0);
    CHECK(table->take_young(1024, *dump, &*own) == 0);  // it lies in the index
    CHECK(take(1024, &*own) == next);
    end(next);
  }
  SECTION("a slot that is in use is not taken") {
    for (std::uint64_t i = 2; i <= 4; ++i) table->add(allocation(i * 512), *dump, &*own);
    CHECK(make(5 * 512) == 0);
    CHECK(count() == 4);
  }
}

TEST_CASE_METHOD(YoungRecordsFixture, "the record of an event that its thread ends waits for the next one", "[young]") {
  constexpr std::uint8_t kEvents = space_of(Kind::kEvent);
  count_barriers();
  auto make = [&](std::uint64_t handle) {
    const YoungRecords::Spare spare = table->spare<Kind::kEvent>(&*own, 0);
    if (spare.ref != 0) {
      table->make_in_spare<Kind::kEvent>(
          handle, spare, [](AllocationRecord* record) { record->flags = 0; }, *dump, &*own);
      return spare.ref;
    }
    return table->add(LiveTableFixture::allocation(handle, 0, 0, Kind::kEvent), *dump, &*own);
  };
  auto take_event = [&](std::uint64_t handle, ThreadRecords* taker) {
    return table->take(
        kEvents, handle, [] { return std::uint8_t{0}; }, *dump, taker);
  };
  REQUIRE(table->spare<Kind::kEvent>(&*own, 0).ref == 0);
  const Ref ref = make(1);
  REQUIRE(table->end_young<Kind::kEvent>(1, *dump, &*own) == ref);
  REQUIRE(table->end_young<Kind::kEvent>(1, *dump, &*own) == 0);
  CHECK(table->spare<Kind::kEvent>(&*own, 0).ref == ref);
  CHECK(table->spare<Kind::kEvent>(&*own, 1).ref == 0);  // other device
  CHECK(count() == 0);
  SECTION("over and over") {
    barriers = 0;  // count() needed one
    for (std::uint64_t handle = 2; handle <= 1000; ++handle) {
      const std::uint32_t before = dump->at<AllocationRecord>(ref)->state;
      REQUIRE(make(handle) == ref);
      REQUIRE(dump->at<AllocationRecord>(ref)->handle == handle);
      REQUIRE(table->end_young<Kind::kEvent>(handle, *dump, &*own) == ref);
      // A live reader sees that it is another one.
      REQUIRE(dump->at<AllocationRecord>(ref)->state >> format::kStateBits != before >> format::kStateBits);
    }
    CHECK(barriers == 0);
  }
  SECTION("several at a time") {
    std::vector<Ref> made;
    for (std::uint64_t handle = 2; handle <= 8; ++handle) made.push_back(make(handle));
    CHECK(count() == 7);
    for (std::uint64_t handle = 2; handle <= 8; ++handle) {
      Ref ended = table->end_young<Kind::kEvent>(handle, *dump, &*own);
      if (ended == 0) {
        ended = take_event(handle, &*own);
        table->retire(ended, *dump, {}, &*own);
      }
      CHECK(ended == made[handle - 2]);
    }
    CHECK(count() == 0);
    // None of the records that wait is lost, and none is used twice.
    made.clear();
    for (std::uint64_t handle = 12; handle <= 18; ++handle) made.push_back(make(handle));
    std::sort(made.begin(), made.end());
    CHECK(std::unique(made.begin(), made.end()) == made.end());
    CHECK(count() == 7);
  }
  SECTION("another thread takes the record that was made of it") {
    REQUIRE(make(2) == ref);
    CHECK(take_event(2, nullptr) == ref);
    CHECK(table->end_young<Kind::kEvent>(2, *dump, &*own) == 0);
    CHECK(table->spare<Kind::kEvent>(&*own, 0).ref == 0);
    CHECK(make(3) != ref);
  }
  SECTION("it was not ended after all") {
    REQUIRE(table->take_back<Kind::kEvent>(ref, 1, *dump, &*own));
    CHECK(table->spare<Kind::kEvent>(&*own, 0).ref == 0);
    const Ref other = make(2);
    CHECK(other != ref);
    table->put_back(ref, *dump);
    CHECK(count() == 2);
    CHECK(take_event(1, &*own) == ref);
    CHECK(take_event(2, &*own) == other);
  }
  SECTION("it was not ended after all, but its record is used again") {
    REQUIRE(make(2) == ref);
    CHECK_FALSE(table->take_back<Kind::kEvent>(ref, 1, *dump, &*own));
    CHECK(table->end_young<Kind::kEvent>(2, *dump, &*own) == ref);
    CHECK_FALSE(table->take_back<Kind::kEvent>(ref, 1, *dump, &*own));
  }
  SECTION("something else comes to lie there") {
    const Ref added = table->add(LiveTableFixture::allocation(7, 0, 1, Kind::kEvent), *dump, &*own);
    CHECK(added != ref);
    CHECK(table->spare<Kind::kEvent>(&*own, 0).ref == 0);
    CHECK(table->add(LiveTableFixture::allocation(8, 0, 1, Kind::kEvent), *dump, &*own) == ref);  // it is not lost
  }
  SECTION("recording stops and goes on") {
    table->pause_young(*dump);
    os.advise = [](void*, std::uint64_t, int) {
      errno = EINVAL;  // like a kernel without huge pages
      return -EINVAL;
    };
    errno = 0;
    CHECK(make(2) == ref);  // inserted into the index, whose memory is new
    CHECK(errno == 0);
    CHECK(table->spare<Kind::kEvent>(&*own, 0).ref == 0);
    CHECK(table->end_young<Kind::kEvent>(2, *dump, &*own) == 0);
    CHECK(take_event(2, nullptr) == ref);
    table->resume_young();
    make(3);
    CHECK(table->end_young<Kind::kEvent>(3, *dump, &*own) == 0);  // closed still
    make(4);
    CHECK(table->end_young<Kind::kEvent>(4, *dump, &*own) != 0);
    CHECK(count() == 1);
  }
  SECTION("the thread ends") {
    table->end_thread(&*own, *dump);
    Zeroed<ThreadRecords> other;
    table->begin_thread(&*other);
    std::vector<Ref> made;
    for (std::uint64_t handle = 1; handle <= 256; ++handle)  // more than a new thread gets at once
      made.push_back(table->add(LiveTableFixture::allocation(handle, 0, 0, Kind::kEvent), *dump, &*other));
    CHECK(std::count(made.begin(), made.end(), ref) == 1);
  }
}

TEST_CASE_METHOD(YoungRecordsFixture,
                 "threads that end their own and each other's things while all is looked at lose nothing", "[young]") {
  const bool events = GENERATE(false, true);
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kEach = 30000;
  struct Mailbox {
    std::mutex mutex;
    std::deque<std::uint64_t> handles;
  };
  std::vector<Mailbox> boxes(kThreads);
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<int> working{kThreads};
  auto make = [&](std::uint64_t handle, ThreadRecords* records) {
    AllocationRecord fields = allocation(handle);
    if (!events) return table->add(fields, *dump, records);
    fields.kind = Kind::kEvent;
    const YoungRecords::Spare spare = table->spare<Kind::kEvent>(records, 0);
    if (spare.ref == 0) return table->add(fields, *dump, records);
    table->make_in_spare<Kind::kEvent>(
        handle, spare, [&](AllocationRecord* record) { record->extra = fields.extra; }, *dump, records);
    return spare.ref;
  };
  auto end = [&](std::uint64_t handle, ThreadRecords* records) {
    if (events) {
      Ref ref = table->end_young<Kind::kEvent>(handle, *dump, records);
      if (ref != 0 && dump->at<AllocationRecord>(ref)->extra != handle * 2) ++wrong;
      if (ref != 0) return;
    }
    Ref ref = table->take(
        events ? space_of(Kind::kEvent) : kSpace, handle, [] { return std::uint8_t{0}; }, *dump, records);
    if (ref == 0 || dump->at<AllocationRecord>(ref)->handle != handle ||
        dump->at<AllocationRecord>(ref)->extra != handle * 2) {
      ++wrong;
    } else {
      table->retire(ref, *dump, {}, records);
    }
  };
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Zeroed<ThreadRecords> records;
      table->begin_thread(&*records);
      auto end_next = [&] {
        std::uint64_t handle = 0;
        {
          std::lock_guard<std::mutex> guard(boxes[t].mutex);
          if (boxes[t].handles.empty()) return false;
          handle = boxes[t].handles.front();
          boxes[t].handles.pop_front();
        }
        end(handle, &*records);
        return true;
      };
      for (std::uint64_t i = 1; i <= kEach; ++i) {
        const std::uint64_t handle = (t * kEach + i) * 512;
        if (make(handle, &*records) == 0) ++wrong;
        // Long runs of own frees, so that a thread opens its records again, followed by frees of another thread's.
        if (i % 4096 < 16) {
          Mailbox& box = boxes[(t + 1) % kThreads];
          std::lock_guard<std::mutex> guard(box.mutex);
          box.handles.push_back(handle);
        } else {
          end(handle, &*records);
        }
        if (i % 7 == 0) end_next();
      }
      --working;
      while (working.load() > 0) std::this_thread::yield();
      while (end_next()) {
      }
      table->end_thread(&*records, *dump);
    });
  }
  while (working.load() > 0) count();
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(count() == 0);
}
