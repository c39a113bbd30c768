#include "interpose/owners/thread_paths.h"

#include "interpose/owners/abandoned.h"
#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

// Addresses name functions: 0x1000 to 0x1fff is one, 0x2000 to 0x2fff the next.
bool function_at(std::uint64_t address, FunctionInfo* info) {
  *info = {address & ~0xfffULL, (address & ~0xfffULL) + 0x1000, false, false, nullptr, nullptr};
  return true;
}

struct Frame {
  std::uint64_t address;
  std::uint64_t pointer;
};

struct StartedDump {
  StartedDump() { REQUIRE(writer->start(folder.file("a.dump").c_str()) == 0); }
  TemporaryFolder folder;
  Zeroed<DumpWriter> writer;
};

struct Fixture : StartedDump {
  DumpWriter& dump = *writer;
  ThreadPaths* paths = ThreadPaths::create(dump);
  std::vector<format::Ref> records;
  ~Fixture() { paths->destroy(); }

  // A path, innermost frame first.
  ThreadPaths::Path path(std::initializer_list<Frame> frames, bool truncated = false) {
    RawStack stack = {0, truncated, {}};
    std::uint64_t pointers[kMaxStackDepth];
    for (const Frame& frame : frames) {
      pointers[stack.count] = frame.pointer;
      stack.frames[stack.count++] = frame.address;
    }
    return paths->intern(stack, pointers);
  }
  format::AllocationRecord* record(format::Ref ref) { return dump.at<format::AllocationRecord>(ref); }
  format::Ref make(ThreadPaths::Path by, std::uint64_t handle = 0) {
    format::Ref ref = dump.allocate_records(format::ChunkType::kAllocations, 1, nullptr);
    record(ref)->state = 1U << format::kStateBits | static_cast<std::uint32_t>(format::AllocationState::kLive);
    record(ref)->handle = handle;
    paths->see(by);
    paths->made(ref, record(ref)->state, by);
    return ref;
  }
  void end(format::Ref ref) { record(ref)->state = 2U << format::kStateBits; }

  ThreadPaths::Verdict verdict_of(ThreadPaths::Path made, ThreadPaths::Path thrown, ThreadPaths::Path caught) {
    ExceptionEnd end = find_exception_end(*paths, thrown, caught, function_at);
    REQUIRE(end.how == ExceptionEnd::How::kCaught);
    return judge(*paths, made, thrown, caught, end, nullptr, function_at);
  }
  std::vector<format::Ref> settle(ThreadPaths::Path by, std::uint32_t since, std::uint32_t clock) {
    std::vector<format::Ref> struck;
    paths->settle(by, since, clock, [&](format::Ref ref, bool) { struck.push_back(ref); });
    return struck;
  }

  // start 0xa..., main 0x1..., step 0x2..., alloc 0x3..., check 0x4...; stack pointers fall inwards.
  const Frame start = {0xa010, 1100};
  const Frame main_calls_step = {0x1010, 1000};
  const Frame main_calls_other = {0x1020, 1000};
  const Frame main_catches = {0x1099, 1000};
  const Frame step_allocates = {0x2010, 900};
  const Frame step_checks = {0x2020, 900};
  const Frame step_catches = {0x2099, 900};
  const Frame inside_alloc = {0x3010, 800};
  const Frame inside_check = {0x4010, 800};
  const ThreadPaths::Path made_in_step = path({inside_alloc, step_allocates, main_calls_step, start});
  const ThreadPaths::Path thrown_below_step = path({inside_check, step_checks, main_calls_step, start});
  const ThreadPaths::Path caught_in_main = path({main_catches, start});
  const ThreadPaths::Path caught_in_check = path({{0x4099, 800}, step_checks, main_calls_step, start});
};

}  // namespace

TEST_CASE_METHOD(Fixture, "paths: the same stack is the same path and another place another one", "[paths]") {
  CHECK(made_in_step != 0);
  CHECK(path({inside_alloc, step_allocates, main_calls_step, start}) == made_in_step);
  CHECK(path({{0x3010, 792}, step_allocates, main_calls_step, start}) != made_in_step);
  CHECK(path({step_allocates, main_calls_step, start}) != made_in_step);
}

TEST_CASE_METHOD(Fixture, "paths: an owner that was unwound was abandoned, one outside the handler was not",
                 "[paths]") {
  ThreadPaths::Verdict verdict = verdict_of(made_in_step, thrown_below_step, caught_in_main);
  CHECK(verdict.abandoned);
  CHECK(verdict.owner_depth == 3);
  CHECK(verdict.cfa == 1000);
  CHECK_FALSE(verdict_of(made_in_step, thrown_below_step, caught_in_check).abandoned);
  // Allocated by a function that main called directly: the owner is main, which caught it, outside of any try block.
  const ThreadPaths::Path made_in_other = path({{0x5010, 900}, main_calls_other, start});
  CHECK_FALSE(verdict_of(made_in_other, thrown_below_step, caught_in_main).abandoned);
}

TEST_CASE_METHOD(Fixture, "paths: a frame below the throw is no handler", "[paths]") {
  const ThreadPaths::Path in_runtime = path({{0x9010, 700}, {0x4010, 800}, step_checks, main_calls_step, start});
  ExceptionEnd end = find_exception_end(*paths, thrown_below_step, in_runtime, function_at);
  CHECK(end.how == ExceptionEnd::How::kUncaught);
  CHECK(judge(*paths, made_in_step, thrown_below_step, in_runtime, end, nullptr, function_at).abandoned);
  const ThreadPaths::Path elsewhere = path({{0x7010, 5000}, {0x7020, 5100}});
  CHECK(find_exception_end(*paths, thrown_below_step, elsewhere, function_at).how == ExceptionEnd::How::kUnknown);
}

TEST_CASE_METHOD(Fixture, "paths: another function at the same place is no common owner", "[paths]") {
  // main calls through a pointer: first 0x6..., later step, both from the same call site.
  const ThreadPaths::Path made_in_six = path({{0x3010, 800}, {0x6010, 900}, main_calls_step, start});
  ThreadPaths::Verdict verdict = verdict_of(made_in_six, thrown_below_step, caught_in_main);
  CHECK(verdict.owner_depth == 2);
  CHECK(verdict.cfa == 1100);
}

TEST_CASE_METHOD(Fixture, "paths: stacks that were cut short meet where both are known", "[paths]") {
  const ThreadPaths::Path made = path({inside_alloc, step_allocates}, true);
  ThreadPaths::Common common = paths->find_common(made, thrown_below_step);
  CHECK(common.a == 0);  // they share no frame that both know
  const ThreadPaths::Path longer = path({inside_alloc, step_allocates, main_calls_step, start}, true);
  common = paths->find_common(longer, thrown_below_step);
  REQUIRE(common.a != 0);
  CHECK(paths->address(common.a) == main_calls_step.address);
  CHECK(paths->address(common.a_inner) == step_allocates.address);
  CHECK(paths->address(common.b_inner) == step_checks.address);
}

TEST_CASE_METHOD(Fixture, "paths: a call outside the owner proves that an earlier activation ended", "[paths]") {
  make(made_in_step);
  const ThreadPaths::Path in_main = path({{0x5010, 900}, main_calls_other, start});
  paths->see(in_main);
  const format::Ref second = make(made_in_step);
  paths->see(thrown_below_step);
  const std::uint64_t cfa = verdict_of(made_in_step, thrown_below_step, caught_in_main).cfa;
  const std::uint32_t since = paths->running_since(made_in_step, cfa);
  Flight* flight = paths->begin_flight(&records, thrown_below_step, 0);
  SECTION("a call while frames are unwound proves nothing") { paths->see(in_main); }
  CHECK(paths->running_since(made_in_step, cfa) == since);
  const std::uint32_t clock = flight->clock;
  paths->end_flight(flight);
  REQUIRE(paths->has_unsettled(made_in_step, since, clock));
  CHECK(settle(made_in_step, since, clock) == std::vector<format::Ref>{second});
  CHECK_FALSE(paths->has_unsettled(made_in_step, since, clock));
}

TEST_CASE_METHOD(Fixture, "paths: allocations that ended meanwhile or came later are not struck", "[paths]") {
  const format::Ref first = make(made_in_step);
  const format::Ref second = make(made_in_step);
  const format::Ref third = make(made_in_step);
  end(second);
  Flight* flight = paths->begin_flight(&records, thrown_below_step, 0);
  const std::uint32_t clock = flight->clock;
  make(made_in_step);
  paths->end_flight(flight);
  CHECK(settle(made_in_step, 0, clock) == std::vector<format::Ref>{third, first});
}

TEST_CASE_METHOD(Fixture, "paths: variables of the owner tell its allocations from earlier ones", "[paths]") {
  const format::Ref first = make(made_in_step, 0xd1);
  const format::Ref second = make(made_in_step, 0xd2);
  const format::Ref third = make(made_in_step, 0xd3);
  std::vector<bool> sure;
  auto visit = [&](format::Ref ref, bool is_sure) {
    records.push_back(ref);
    sure.push_back(is_sure);
  };
  SECTION("all there") {
    const std::uint64_t frame[] = {1, 0xd1, 0xd2, 0xd3};
    paths->look_in_frames(made_in_step, frame, frame + 4);
    paths->settle(made_in_step, 0, ~0U, visit);
    CHECK(records == std::vector<format::Ref>{third, second, first});
    CHECK(sure == std::vector<bool>{true, true, true});
  }
  SECTION("only the newest") {
    const std::uint64_t frame[] = {0xd3, 0};
    paths->look_in_frames(made_in_step, frame, frame + 2);
    paths->settle(made_in_step, 0, ~0U, visit);
    CHECK(records == std::vector<format::Ref>{third});
  }
  SECTION("kept elsewhere") {
    const std::uint64_t frame[] = {0, 0};
    paths->look_in_frames(made_in_step, frame, frame + 2);
    paths->settle(made_in_step, 0, ~0U, visit);
    CHECK(records == std::vector<format::Ref>{third, second, first});
    CHECK(sure == std::vector<bool>{true, false, false});
  }
}

TEST_CASE_METHOD(Fixture, "paths: memory use follows live allocations and not the number of calls", "[paths]") {
  const format::Ref kept = make(made_in_step);
  for (int i = 0; i < 100000; ++i) {
    const format::Ref ref = make(i % 2 == 0 ? made_in_step : thrown_below_step);
    end(ref);
    if (i % 3 == 0) paths->ended(ref);
  }
  CHECK(paths->any_live());
  CHECK(paths->entries() == 1);
  end(kept);
  CHECK_FALSE(paths->any_live());
}

TEST_CASE_METHOD(Fixture, "paths: more than there is room for are numbered anew, and live allocations keep theirs",
                 "[paths]") {
  const format::Ref kept = make(made_in_step);
  const std::uint32_t before = paths->epoch();
  for (std::uint64_t i = 0; i < 50000; ++i) REQUIRE(path({{0x5000 + i, 800}, main_calls_other, start}) != 0);
  CHECK(paths->epoch() > before);
  const ThreadPaths::Path now = path({inside_alloc, step_allocates, main_calls_step, start});
  CHECK(settle(now, 0, ~0U) == std::vector<format::Ref>{kept});
}

TEST_CASE_METHOD(Fixture, "cleared paths know nothing of the thread before", "[paths]") {
  const ThreadPaths::Path made = path({{0x1010, 100}, {0x2010, 200}});
  const ThreadPaths::Path thrown = path({{0x3010, 150}, {0x2020, 200}});
  make(made);
  *paths->verdict(made, thrown, thrown) = {made, thrown, thrown, {1}, true, false, 7};
  int object = 0;
  paths->begin_flight(&object, thrown, 5);
  CHECK(paths->used_little());
  paths->clear();
  CHECK_FALSE(paths->any_live());
  CHECK(paths->entries() == 0);
  CHECK(paths->clock() == 0);
  CHECK_FALSE(paths->in_flight());
  CHECK(paths->flight_of(&object) == nullptr);
  int active = 0;
  paths->for_each_active([&](ThreadPaths::Path) { ++active; });
  CHECK(active == 0);
  paths->for_each_flight_stack([](format::Ref stack) { CHECK(stack == 0); });
  // Whatever generation the modules have.
  paths->forget_verdicts(0);
  CHECK_FALSE(paths->verdict(made, thrown, thrown)->is_about(made, thrown, thrown));
  // The same addresses, and one more frame: a path of its own.
  const ThreadPaths::Path other = path({{0x1010, 100}, {0x2010, 200}, {0x4010, 300}});
  REQUIRE(other != 0);
  CHECK(paths->depth(paths->innermost(other)) == 3);
  CHECK(paths->newest(other) == 0);
  make(other);
  CHECK(paths->any_live());
}

TEST_CASE_METHOD(Fixture, "paths of many stacks are not kept for another thread", "[paths]") {
  for (std::uint64_t i = 0; i < 2000; ++i) path({{0x1010 + i, 100}});
  CHECK_FALSE(paths->used_little());
}
