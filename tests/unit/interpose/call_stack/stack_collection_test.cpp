#include "interpose/call_stack/stack_collection.h"

#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "interpose/control/breakdowns.h"
#include "interpose/dump/event_tables.h"
#include "interpose/dump/live_table.h"
#include "interpose/stacks/stack_memo.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::AllocationRecord;
using format::ChunkType;
using format::Kind;
using format::Ref;
using format::StackRecord;

namespace {

constexpr std::uint64_t kGoal = 1 << 20;

// The parts of a thread that refer to stacks.
struct Thread {
  Zeroed<StackMemo> memo;
  StackHolder holder = {};
  bool in_section = false;
  explicit Thread(StackHolders& holders) : holders_(holders) {
    holder.in_section = &in_section;
    holder.memo = &*memo;
    holders.enter(&holder);
  }
  ~Thread() { holders_.leave(&holder); }
  void enter() {
    __atomic_store_n(&in_section, true, __ATOMIC_RELAXED);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  void leave() { __atomic_store_n(&in_section, false, __ATOMIC_RELEASE); }

 private:
  StackHolders& holders_;
};

struct Fixture {
  Fixture() {
    prepare_to_meet_threads();
    REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0);
    stacks->set_limit(64 << 20, kGoal);
  }
  ~Fixture() {
    stacks->free_memory();
    live->free_memory();
    dump->close();
  }
  // A stack that contains its number.
  Ref stack_of(std::uint64_t number, int frames = 12) {
    std::uint64_t addresses[kMaxStackDepth];
    for (int i = 0; i < frames; ++i) addresses[i] = number * 512 + static_cast<std::uint64_t>(i);
    return stacks->intern_frames(addresses, frames, 0, *dump);
  }
  bool is_stack_of(std::uint64_t number, Ref ref) {
    const auto* record = dump->at<StackRecord>(ref);
    const auto* frames = reinterpret_cast<const std::uint64_t*>(record + 1);
    return record->frame_count > 0 && frames[0] == number * 512 && frames[record->frame_count - 1] / 512 == number &&
           record->check == format::stack_check(frames, record->frame_count, record->flags);
  }
  StackCollection::Parts parts() { return {*stacks, *holders, *modules, nullptr, nullptr, &*cancels, *dump}; }
  // Ever new stacks until a collection is through.
  void collect(const StackHolder* self, std::uint64_t* number) {
    const std::uint32_t before = dump->header()->stack_sweeps;
    for (int i = 0; i < 1000000 && dump->header()->stack_sweeps == before; ++i) {
      if (collection->is_due(parts())) collection->step(parts(), self);
      REQUIRE(stack_of((*number)++) != 0);
    }
    REQUIRE(dump->header()->stack_sweeps == before + 1);
  }
  Ref allocation(std::uint64_t handle, Ref stack) {
    AllocationRecord fields = {};
    fields.handle = handle;
    fields.kind = Kind::kDevice;
    fields.stack = stack;
    return live->add(fields, *dump);
  }

  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<StackTable> stacks;
  Zeroed<ModuleTable> modules;
  Zeroed<StackHolders> holders;
  Zeroed<StackCollection> collection;
  Zeroed<LiveTable> live;
  Zeroed<CancelTable> cancels;
};

}  // namespace

TEST_CASE_METHOD(Fixture, "ever new stacks take no more room than some, and are counted") {
  Thread self(*holders);
  std::uint64_t number = 1;
  for (int i = 0; i < 5; ++i) collect(&self.holder, &number);
  const std::uint64_t bytes = dump->header()->file_bytes;
  for (int i = 0; i < 50; ++i) collect(&self.holder, &number);
  CHECK(dump->header()->file_bytes == bytes);
  CHECK(dump->header()->merged_stacks == 0);
  CHECK(dump->header()->reused_stacks > number * 9 / 10);
  CHECK(stacks->bytes() <= 2 * kGoal);
}

TEST_CASE_METHOD(Fixture, "stacks that the dump names are not freed") {
  Thread self(*holders);
  std::uint64_t number = 1;
  std::vector<std::pair<std::uint64_t, Ref>> named;
  auto add = [&] {
    named.push_back({number, stack_of(number)});
    return stack_of(number++);
  };
  allocation(0x1000, add());
  auto* launched = dump->at<format::AllocationRecord>(allocation(0x3000, add()));
  launched->kind = Kind::kGraphMemory;
  launched->launched = {add(), 1};
  Ref ended = allocation(0x2000, add());
  live->take(
      space_of(Kind::kDevice), 0x2000, [] { return 0; }, *dump);
  live->retire(ended, *dump, {add(), 0, false, true});
  Zeroed<ErrorTable> errors;
  format::ErrorRecord error = {};
  error.type = format::ErrorType::kDoubleFree;
  error.stack = add();
  error.allocation_stack = add();
  error.free_stack = add();
  REQUIRE(errors->add(error, *dump) != 0);
  Zeroed<FailedCallTable> failed;
  format::FailedCallRecord call = {};
  call.stack = add();
  REQUIRE(failed->add(call, *dump) != 0);
  Zeroed<ReleaseTable> releases;
  format::ReleaseRecord release = {};
  release.stack = add();
  release.teardown_stack = add();
  REQUIRE(releases->add(release, *dump));
  auto record_of = [&](auto* record, ChunkType type) {
    using Record = std::remove_pointer_t<decltype(record)>;
    return dump->at<Record>(dump->allocate_records(type, 1, nullptr));
  };
  auto* thrown = record_of(static_cast<format::ThrowRecord*>(nullptr), ChunkType::kThrows);
  thrown->stack = add();
  thrown->catch_stack = add();
  auto* context = record_of(static_cast<format::ContextRecord*>(nullptr), ChunkType::kContexts);
  context->stack = add();
  context->destroy_stack = add();
  record_of(static_cast<format::SiteRecord*>(nullptr), ChunkType::kSites)->stack = add();
  auto* breakdown = record_of(static_cast<format::BreakdownRecord*>(nullptr), ChunkType::kBreakdowns);
  breakdown->stack = add();
  breakdown->shares[0].stack = add();
  breakdown->shares[format::kBreakdownShares - 1].stack = add();
  auto* sums = record_of(static_cast<format::MarkSumsRecord*>(nullptr), ChunkType::kMarkSums);
  sums->state = 1;
  sums->shares[format::kMarkSumShares - 1].stack = add();
  record_of(static_cast<format::ThreadCounters*>(nullptr), ChunkType::kCounters)
      ->stacks[format::kStackCounters - 1]
      .stack = add();
  dump->header()->exit_stack = add();
  cancels->add({pthread_self(), add(), 1});
  self.holder.walked = add();
  self.holder.kept[0] = add();
  self.holder.kept[3] = add();

  for (int i = 0; i < 5; ++i) collect(&self.holder, &number);
  for (const auto& [which, ref] : named) {
    INFO("stack " << which);
    CHECK(is_stack_of(which, ref));
    CHECK(stack_of(which) == ref);
  }
  releases->free_memory();
}

TEST_CASE_METHOD(Fixture, "a stack in a thread's memo is not freed") {
  Thread self(*holders);
  alignas(16) std::uint64_t frame[64] = {};
  frame[1] = 0x1234;
  StackChecks checks = {};
  checks.complete = true;
  std::uint64_t number = 1;
  const Ref known = stack_of(number++);
  std::uint32_t path = 0;
  REQUIRE(self.memo->look_up(frame, 1, &path) == 0);
  self.memo->remember(frame, 1, known, 7, checks);
  for (int i = 0; i < 3; ++i) collect(&self.holder, &number);
  REQUIRE(self.memo->look_up(frame, 1, &path) == known);
  CHECK(is_stack_of(1, known));
  self.memo->forget_all();
  collect(&self.holder, &number);
  collect(&self.holder, &number);
  CHECK_FALSE(is_stack_of(1, known));
}

TEST_CASE_METHOD(Fixture, "nothing is freed while a thread is in a section, and everything goes on") {
  Thread self(*holders);
  Thread other(*holders);
  std::uint64_t number = 1;
  other.enter();
  const Ref held = stack_of(number++);  // by the other one, in a register
  while (stacks->bytes() < 4 * kGoal) {
    if (collection->is_due(parts())) collection->step(parts(), &self.holder);
    REQUIRE(stack_of(number++) != 0);
  }
  CHECK(dump->header()->stack_sweeps == 0);
  CHECK(is_stack_of(1, held));
  allocation(0x5000, held);
  other.leave();
  collect(&self.holder, &number);
  CHECK(is_stack_of(1, held));
  CHECK(dump->header()->merged_stacks == 0);
}

TEST_CASE_METHOD(Fixture, "a thread that cannot be watched keeps everything") {
  Thread self(*holders);
  std::uint64_t number = 1;
  holders->enter_unwatched();
  while (stacks->bytes() < 4 * kGoal) {
    if (collection->is_due(parts())) collection->step(parts(), &self.holder);
    REQUIRE(stack_of(number++) != 0);
  }
  CHECK(dump->header()->stack_sweeps == 0);
}

TEST_CASE_METHOD(Fixture, "without a barrier of the system a grace period takes its time") {
  RealOs real;
  os.membarrier = [](int) { return -38; };
  Thread self(*holders);
  std::uint64_t number = 1;
  collect(&self.holder, &number);
  CHECK(dump->header()->reused_stacks > 1000);
}

TEST_CASE_METHOD(Fixture, "when everything is needed new stacks are merged, and old ones are as they were") {
  stacks->set_limit(2 * kGoal, kGoal);
  Thread self(*holders);
  std::vector<std::pair<std::uint64_t, Ref>> kept;
  for (std::uint64_t number = 1; number <= 50000; ++number) {
    if (collection->is_due(parts())) collection->step(parts(), &self.holder);
    const Ref ref = stack_of(number);
    REQUIRE(ref != 0);
    if ((dump->at<StackRecord>(ref)->flags & format::kStackMerged) == 0) kept.push_back({number, ref});
    allocation(number, ref);
  }
  CHECK(kept.size() > 10000);
  CHECK(dump->header()->merged_stacks > 10000);
  CHECK(dump->header()->merged_stacks == 50000 - kept.size());
  CHECK(stacks->bytes() <= 2 * kGoal + PackedSpace::kBeyond + format::kChunkAlignment);
  for (const auto& [number, ref] : kept) REQUIRE(is_stack_of(number, ref));
  // When those records are gone, there is space again.
  live->sweep(*dump, [](AllocationRecord&, Ref, EndedBy* by) {
    *by = {0, 0, false, true};
    return true;
  });
  const std::uint64_t merged = dump->header()->merged_stacks;
  std::uint64_t number = 1000000;
  for (int i = 0; i < 5; ++i) collect(&self.holder, &number);
  const std::uint64_t then = dump->header()->merged_stacks;
  for (int i = 0; i < 50000; ++i) {
    if (collection->is_due(parts())) collection->step(parts(), &self.holder);
    REQUIRE((dump->at<StackRecord>(stack_of(number++))->flags & format::kStackMerged) == 0);
  }
  CHECK(dump->header()->merged_stacks == then);
  CHECK(then >= merged);
}

// The scenario behind the argument in stack_collection.h: threads find stacks and put them into records, in sections,
// while others collect. Each stack contains its number, so that a stack freed too early is noticed.
TEST_CASE_METHOD(Fixture,
                 "threads that make and end things find each stack as they left it, whichever thread collects") {
  stacks->set_limit(16 << 20, 256 << 10);
  constexpr int kThreads = 4;
  constexpr int kEvents = 100000;
  constexpr int kLive = 64;
  std::atomic<int> wrong{0};
  std::atomic<int> running{kThreads};
  Zeroed<ErrorTable> errors;
  auto run = [&](unsigned seed) {
    Thread self(*holders);
    std::mt19937 random(seed);
    struct Kept {
      std::uint64_t number = 0;
      Ref record = 0;
      Ref stack = 0;
    };
    std::vector<Kept> mine(kLive);
    std::uint64_t next = std::uint64_t{seed} << 32;
    for (int i = 0; i < kEvents; ++i) {
      Kept& one = mine[random() % kLive];
      self.enter();
      if (one.record != 0) {
        if (!is_stack_of(one.number, one.stack) || dump->at<AllocationRecord>(one.record)->stack != one.stack)
          wrong.fetch_add(1);
        live->take(
            space_of(Kind::kDevice), one.number, [] { return 0; }, *dump);
        live->retire(one.record, *dump, {one.stack, 0, false, true});
      }
      if (collection->is_due(parts())) collection->step(parts(), &self.holder);
      one.number = random() % 4 == 0 ? (std::uint64_t{seed} << 32) + (1U << 30) + random() % 1000 : ++next;
      // A handle lives once.
      for (const Kept& other : mine) {
        if (&other != &one && other.number == one.number) one.number = 0;
      }
      if (one.number == 0) one.number = ++next;
      one.stack = stack_of(one.number, 4 + static_cast<int>(one.number % 40));
      if (i % 16 == 0) std::this_thread::yield();
      one.record = allocation(one.number, one.stack);
      if (i % 1000 == 0) {  // moved from a record to a table
        format::ErrorRecord error = {};
        error.type = format::ErrorType::kFailedFree;
        error.allocation_stack = dump->at<AllocationRecord>(one.record)->stack;
        error.handle = one.number;
        errors->add(error, *dump);
      }
      self.leave();
    }
    for (const Kept& one : mine) {
      if (one.record != 0 && !is_stack_of(one.number, one.stack)) wrong.fetch_add(1);
    }
    running.fetch_sub(1);
    while (running.load() != 0) std::this_thread::yield();
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i <= kThreads; ++i) threads.emplace_back(run, i);
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
  CHECK(dump->header()->stack_sweeps > 10);
  CHECK(dump->header()->merged_stacks == 0);
  int looked = 0;
  dump->for_each_record<format::ErrorRecord>(ChunkType::kErrors, [&](const format::ErrorRecord& error) {
    if (error.state == 0) return;
    ++looked;
    CHECK(is_stack_of(error.handle, error.allocation_stack));
  });
  CHECK(looked > 100);
}
