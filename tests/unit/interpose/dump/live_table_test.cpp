#include "interpose/dump/live_table.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/interpose/dump/live_table_fixture.h"

using namespace culprit;
using format::AllocationRecord;
using format::Kind;
using format::Ref;

namespace {

using Fixture = LiveTableFixture;

constexpr std::uint8_t kAddress = space_of(Kind::kDevice);

std::uint32_t state_of(Fixture& f, Ref ref) {
  return f.dump->at<AllocationRecord>(ref)->state & ((1U << format::kStateBits) - 1);
}

}  // namespace

TEST_CASE_METHOD(Fixture, "the same address on two devices is two allocations") {
  Ref first = table->add(allocation(0x1000, 11, 0), *dump);
  Ref second = table->add(allocation(0x1000, 22, 1), *dump);
  CHECK(table->find(kAddress, 0x1000, 0, *dump) == first);
  CHECK(table->find(kAddress, 0x1000, 1, *dump) == second);
  CHECK(table->take(
            kAddress, 0x1000, [] { return std::uint8_t{1}; }, *dump) == second);
  table->retire(second, *dump);
  SECTION("the remaining record is found from any device") { CHECK(table->find(kAddress, 0x1000, 1, *dump) == first); }
}

TEST_CASE_METHOD(Fixture, "a free is hidden before the driver is called and comes back when it refuses") {
  Ref ref = table->add(allocation(0x1000, 11), *dump);
  REQUIRE(table->take(
              kAddress, 0x1000, [] { return std::uint8_t{0}; }, *dump) == ref);
  CHECK(table->find(kAddress, 0x1000, 0, *dump) == 0);
  CHECK(state_of(*this, ref) == static_cast<std::uint32_t>(format::AllocationState::kFreeing));
  SECTION("refused") {
    table->put_back(ref, *dump);
    CHECK(table->find(kAddress, 0x1000, 0, *dump) == ref);
    CHECK(state_of(*this, ref) == static_cast<std::uint32_t>(format::AllocationState::kLive));
  }
  SECTION("accepted: the slot is used again, under another generation") {
    std::uint32_t before = dump->at<AllocationRecord>(ref)->state >> format::kStateBits;
    table->retire(ref, *dump);
    Ref again = table->add(allocation(0x1000, 33), *dump);
    CHECK(again == ref);
    CHECK(dump->at<AllocationRecord>(again)->state >> format::kStateBits != before);
  }
  SECTION("meanwhile handed to another thread") {
    Ref other = table->add(allocation(0x1000, 44), *dump);
    table->retire(ref, *dump);
    CHECK(table->find(kAddress, 0x1000, 0, *dump) == other);
  }
}

TEST_CASE_METHOD(Fixture, "an address that the driver hands out again replaces what was there unseen") {
  table->add(allocation(0x1000, 11), *dump);
  table->add(allocation(0x1000, 22), *dump);
  CHECK(count() == 1);
}

TEST_CASE_METHOD(Fixture, "different kinds of address can be mistaken for each other, handles of other kinds cannot") {
  table->add(allocation(0x1000, 11, 0, Kind::kPinnedHost), *dump);
  CHECK(table->find(space_of(Kind::kDevice), 0x1000, 0, *dump) != 0);
  CHECK(table->find(space_of(Kind::kStream), 0x1000, 0, *dump) == 0);
  CHECK(table->find(space_of(Kind::kRegisteredHost), 0x1000, 0, *dump) == 0);
}

TEST_CASE_METHOD(Fixture, "an interior pointer finds its allocation") {
  Ref ref = table->add(allocation(0x1000, 0x100), *dump);
  CHECK(table->find_containing(kAddress, 0x10ff, *dump) == ref);
  CHECK(table->find_containing(kAddress, 0x1100, *dump) == 0);
  CHECK(table->find_containing(kAddress, 0xfff, *dump) == 0);
}

TEST_CASE_METHOD(Fixture, "recent ends are remembered, newest first, and the memory of them is bounded") {
  Zeroed<ThreadRecords> own;
  std::uint64_t now = 0;
  auto free_one = [&](std::uint64_t handle, std::uint64_t bytes, Ref stack) {
    AllocationRecord record = allocation(handle, bytes);
    record.time_ns = ++now;
    table->add(record, *dump, &*own);
    Ref taken = table->take(
        kAddress, handle, [] { return std::uint8_t{0}; }, *dump);
    table->retire(taken, *dump, {stack, 3, false, true}, &*own);
  };
  std::uint64_t size = dump->header()->file_bytes;
  for (std::uint64_t i = 1; i <= 100000; ++i) free_one(i * 256, i, static_cast<Ref>(i));
  CHECK(dump->header()->file_bytes - size <= 256 * 1024);
  AllocationRecord ended;
  EndedBy by;
  REQUIRE(table->find_ended(kAddress, 100000 * 256, &ended, &by, *dump));
  CHECK(ended.bytes == 100000);
  CHECK(by.stack == 100000);
  CHECK(by.thread == 3);
  CHECK_FALSE(by.teardown);
  CHECK(table->find_ended(kAddress, 99900 * 256, &ended, &by, *dump));
  CHECK_FALSE(table->find_ended(kAddress, 256, &ended, &by, *dump));
  free_one(100000 * 256, 7, 70);
  REQUIRE(table->find_ended(kAddress, 100000 * 256, &ended, &by, *dump));
  CHECK(ended.bytes == 7);
  CHECK(by.stack == 70);
  table->add(allocation(100000 * 256, 8), *dump, &*own);
  CHECK(table->find_ended(kAddress, 100000 * 256, &ended, &by, *dump));
  CHECK(ended.bytes == 7);
}

TEST_CASE_METHOD(Fixture, "records that a thread leaves behind serve others before the dump grows") {
  Zeroed<ThreadRecords> own;
  std::vector<Ref> made;
  for (std::uint64_t i = 1; i <= 1024; ++i) made.push_back(table->add(allocation(i * 256, i), *dump, &*own));
  std::sort(made.begin(), made.end());
  CHECK(std::unique(made.begin(), made.end()) == made.end());
  for (std::uint64_t i = 1; i <= 1024; ++i) {
    Ref taken = table->take(
        kAddress, i * 256, [] { return std::uint8_t{0}; }, *dump);
    table->retire(taken, *dump, {}, &*own);
  }
  table->end_thread(&*own, *dump);
  Zeroed<ThreadRecords> other;
  std::vector<Ref> again;
  for (std::uint64_t i = 1; i <= 1024; ++i) again.push_back(table->add(allocation(i * 512, i), *dump, &*other));
  std::sort(again.begin(), again.end());
  CHECK(again == made);
}

TEST_CASE_METHOD(Fixture, "a thread that makes pairs needs no more records than it got at first") {
  Zeroed<ThreadRecords> own;
  auto pair = [&](std::uint64_t i) {
    const Ref made = table->add(allocation(i * 256, i), *dump, &*own);
    Ref taken = table->take(
        kAddress, i * 256, [] { return std::uint8_t{0}; }, *dump);
    REQUIRE(taken == made);
    table->retire(taken, *dump, {1, 1, false, true}, &*own);
  };
  pair(1);
  // The tracker's own stack, on which records are fetched, is entered by this call.
  RealOs restore;
  static int entered = 0;
  entered = 0;
  os.block_signals = [] {
    ++entered;
    return std::uint64_t{0};
  };
  for (int round = 0; round < 1000; ++round) pair(1);
  CHECK(entered == 0);
}

TEST_CASE_METHOD(Fixture, "threads that make one thing each use the records of those before") {
  std::set<Ref> used;
  for (std::uint64_t thread = 1; thread <= 1000; ++thread) {
    Zeroed<ThreadRecords> own;
    const Ref made = table->add(allocation(thread * 256, thread), *dump, &*own);
    used.insert(made);
    Ref taken = table->take(
        kAddress, thread * 256, [] { return std::uint8_t{0}; }, *dump);
    table->retire(taken, *dump, {1, 1, false, true}, &*own);
    table->end_thread(&*own, *dump);
  }
  CHECK(used.size() <= 320);
}

TEST_CASE_METHOD(Fixture, "a sweep ends the chosen records, each once, however many there are") {
  for (std::uint64_t i = 1; i <= 50000; ++i)
    table->add(allocation(i * 512, i, static_cast<std::uint8_t>(i % 2)), *dump);
  std::uint64_t bytes = 0;
  table->sweep(*dump, [&](AllocationRecord& record, Ref, EndedBy* by) {
    if (record.device != 1) return false;
    bytes += record.bytes;
    *by = {5, 6, true, true};
    return true;
  });
  AllocationRecord ended;
  EndedBy by;
  REQUIRE(table->find_ended(kAddress, 512, &ended, &by, *dump));
  CHECK(by.teardown);
  CHECK(by.stack == 5);
  CHECK(bytes == 25000ULL * 25000ULL);
  CHECK(count() == 25000);
}

TEST_CASE_METHOD(Fixture, "a full disk drops the allocation and nothing else") {
  RealOs restore;
  REQUIRE(use_up_room(*dump));
  os.reserve = [](int, std::uint64_t, std::uint64_t) { return -28; };
  CHECK(table->add(allocation(0x1000, 11), *dump) == 0);
  CHECK(table->find(kAddress, 0x1000, 0, *dump) == 0);
}

TEST_CASE_METHOD(Fixture, "a live allocation costs at most 76 bytes of dump and index") {
  constexpr std::uint64_t kCount = 200000;
  RealOs restore;
  static std::uint64_t index_bytes = 0;
  index_bytes = 0;
  static OsCalls real;
  real = os;
  os.map = [](void* address, std::uint64_t bytes, int protection, int flags, int fd, std::uint64_t offset, int* error) {
    if (fd == -1) index_bytes += bytes;
    return real.map(address, bytes, protection, flags, fd, offset, error);
  };
  os.unmap = [](void* address, std::uint64_t bytes) {
    index_bytes -= bytes;
    return real.unmap(address, bytes);
  };
  std::uint64_t before = dump->header()->file_bytes;
  for (std::uint64_t i = 1; i <= kCount; ++i) table->add(allocation(0x700000000000 + i * 512, i), *dump);
  std::uint64_t dump_bytes = dump->header()->file_bytes - before;
  // The last chunk is larger than needed.
  CHECK(dump_bytes < kCount * 64 + (1 << 20));
  CHECK(kCount * 64 + index_bytes < kCount * 76);
}

TEST_CASE_METHOD(Fixture, "threads that allocate and free each other's memory leave exact counts") {
  constexpr std::uint64_t kEach = 20000;
  constexpr int kThreads = 4;
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < kEach; ++i) table->add(allocation((t * kEach + i + 1) * 256, 1), *dump);
      ++ready;
      while (ready < kThreads) std::this_thread::yield();
      std::uint64_t other = (t + 1) % kThreads;
      for (std::uint64_t i = 0; i < kEach; i += 2) {
        Ref ref = table->take(
            kAddress, (other * kEach + i + 1) * 256, [] { return std::uint8_t{0}; }, *dump);
        if (ref != 0) table->retire(ref, *dump);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(count() == kThreads * kEach / 2);
}

TEST_CASE_METHOD(Fixture, "pages where nothing is live become holes, and generations go on after them") {
  RealOs restore;
  static std::uint64_t given = 0;
  static bool refuses = false;
  given = 0;
  refuses = GENERATE(false, true);
  static OsCalls real;
  real = os;
  os.advise = [](void* address, std::uint64_t bytes, int advice) {
    if (advice != 9) return real.advise(address, bytes, advice);
    if (refuses) return -95;
    given += bytes;
    return real.advise(address, bytes, advice);
  };
  constexpr std::uint64_t kCount = 100000;
  Zeroed<ThreadRecords> own;
  auto handle = [](std::uint64_t i) { return 0x700000000000 + i * 512; };
  auto make_all = [&] {
    std::vector<Ref> made;
    for (std::uint64_t i = 1; i <= kCount; ++i) made.push_back(table->add(allocation(handle(i), i), *dump, &*own));
    return made;
  };
  auto end_all = [&] {
    for (std::uint64_t i = 1; i <= kCount; ++i) {
      const Ref taken = table->take(
          kAddress, handle(i), [] { return std::uint8_t{0}; }, *dump);
      REQUIRE(taken != 0);
      table->retire(taken, *dump, {1, 1, false, true}, &*own);
    }
  };
  const Ref kept = table->add(allocation(0x1000, 4711), *dump, &*own);
  std::set<std::pair<Ref, std::uint32_t>> seen;
  std::uint64_t size = 0;
  for (int round = 0; round < 4; ++round) {
    for (Ref ref : make_all()) REQUIRE(seen.insert({ref, dump->at<AllocationRecord>(ref)->state}).second);
    if (round == 0) size = dump->header()->file_bytes;
    end_all();
    if (!refuses) CHECK(given > (round + 1) * kCount * 60 - (2 << 20) * (round + 1));
  }
  CHECK(given == (refuses ? 0 : given));
  CHECK(dump->header()->file_bytes <= size + (1 << 20));
  CHECK(count() == 1);
  CHECK(dump->at<AllocationRecord>(kept)->bytes == 4711);
  SECTION("a full disk leaves the holes, and the dump does not grow") {
    if (refuses) return;
    os.reserve = [](int, std::uint64_t, std::uint64_t) { return -28; };
    std::uint64_t made = 0;
    while (table->add(allocation(handle(made + 1), 1), *dump, &*own) != 0) ++made;
    CHECK(made > 256 * 60);
    CHECK(made < kCount);
    CHECK(dump->stopped());
    CHECK(count() == made + 1);
  }
}
