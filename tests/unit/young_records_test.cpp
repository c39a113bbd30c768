#include "interpose/young_records.h"

#include <errno.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tests/unit/live_table_fixture.h"

using namespace culprit;
using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

constexpr std::uint8_t kSpace = space_of(Kind::kStreamOrdered);

struct Fixture : LiveTableFixture {
  Fixture() {
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

// Counts how often other threads were asked to let go of their records.
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

TEST_CASE_METHOD(Fixture, "what a thread makes and ends at once needs no other thread", "[young]") {
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

TEST_CASE_METHOD(Fixture, "what a thread keeps is found by everybody", "[young]") {
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

TEST_CASE_METHOD(Fixture, "a thread whose memory others free is asked seldom", "[young]") {
  count_barriers();
  for (std::uint64_t i = 1; i <= 100000; ++i) {
    Ref ref = table->add(allocation(i * 512), *dump, &*own);
    REQUIRE(take(i * 512, nullptr) == ref);
    table->retire(ref, *dump);
  }
  CHECK(barriers > 0);
  CHECK(barriers < 20);
}

TEST_CASE_METHOD(Fixture, "an address that comes again replaces what was there unseen, even late", "[young]") {
  for (std::uint64_t i = 1; i <= 5; ++i) table->add(allocation(i * 512), *dump, &*own);
  table->add(allocation(512), *dump, &*own);  // the first one is in the index by now
  CHECK(count() == 5);
}

TEST_CASE("a kernel that has no such barrier, or forbids it later, costs speed and nothing else", "[young]") {
  RealOs restore;
  SECTION("from the beginning") {
    os.membarrier = [](int) { return -ENOSYS; };
    Fixture fixture;
    Ref ref = fixture.table->add(fixture.allocation(512), *fixture.dump, &*fixture.own);
    CHECK(fixture.take(512, nullptr) == ref);
  }
  SECTION("later") {
    Fixture fixture;
    Ref ref = fixture.table->add(fixture.allocation(512), *fixture.dump, &*fixture.own);
    os.membarrier = [](int) { return -EPERM; };
    CHECK(fixture.take(512, nullptr) == ref);
  }
}

TEST_CASE_METHOD(Fixture, "threads that end their own and each other's memory while all is looked at lose nothing",
                 "[young]") {
  constexpr std::uint64_t kThreads = 3;
  constexpr std::uint64_t kEach = 30000;
  struct Mailbox {
    std::mutex mutex;
    std::deque<std::uint64_t> handles;
  };
  std::vector<Mailbox> boxes(kThreads);
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<int> working{kThreads};
  auto end = [&](std::uint64_t handle, ThreadRecords* records) {
    Ref ref = take(handle, records);
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
        if (table->add(allocation(handle), *dump, &*records) == 0) ++wrong;
        // Long stretches of own frees, so that a thread opens its records again, and then some of another's.
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
