#include "interpose/stacks/stack_memo.h"

#include <alloca.h>

#include <cstring>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;

namespace {

// A stack as memory: frame[0] is the hook's saved rbp, frame[1] its return address, slots further up.
struct FakeStack {
  alignas(16) std::uint64_t words[64] = {};
  FakeStack() {
    for (std::uint64_t i = 0; i < 64; ++i) words[i] = 1000 + i;
  }
  StackChecks checks(std::initializer_list<int> slots) {
    StackChecks list = {true, 0, {}, {}};
    for (int slot : slots) list.slots[list.count++] = reinterpret_cast<std::uint64_t>(&words[slot]);
    return list;
  }
};

// Every test runs with both ways to compare, where the processor has both.
struct StackMemoFixture {
  StackMemoFixture() {
    if (!StackMemo::compare_eight(GENERATE(false, true))) StackMemo::compare_eight(false);
  }
  ~StackMemoFixture() { StackMemo::compare_eight(false); }
  Zeroed<StackMemo> memo;
  FakeStack stack;
  std::uint32_t path = 0;
};

}  // namespace

TEST_CASE_METHOD(StackMemoFixture, "a remembered stack is known while every slot holds what it held") {
  REQUIRE(memo->look_up(stack.words, 7, &path) == 0);
  memo->remember(stack.words, 7, 42, 9, stack.checks({5, 9, 20}));
  CHECK(memo->look_up(stack.words, 7, &path) == 42);
  SECTION("an outer return address differs") {
    stack.words[20] = 1;
    CHECK(memo->look_up(stack.words, 7, &path) == 0);
    stack.words[20] = 1020;
    CHECK(memo->look_up(stack.words, 7, &path) == 42);
  }
  SECTION("words that are no slots do not matter") {
    stack.words[6] = 1;
    CHECK(memo->look_up(stack.words, 7, &path) == 42);
  }
  SECTION("another call site in the same frame") {
    stack.words[1] = 1;
    CHECK(memo->look_up(stack.words, 7, &path) == 0);
  }
  SECTION("a module was unloaded since") { CHECK(memo->look_up(stack.words, 8, &path) == 0); }
}

TEST_CASE_METHOD(StackMemoFixture, "stacks that must not be remembered are not") {
  StackChecks checks = stack.checks({5});
  REQUIRE(memo->look_up(stack.words, 7, &path) == 0);
  SECTION("an incomplete list") {
    checks.complete = false;
    memo->remember(stack.words, 7, 42, 9, checks);
  }
  SECTION("a stack that was not stored") { memo->remember(stack.words, 7, 0, 9, checks); }
  SECTION("a slot below the frame: another stack") {
    checks.slots[0] = reinterpret_cast<std::uint64_t>(stack.words) - 8;
    memo->remember(stack.words, 7, 42, 9, checks);
  }
  CHECK(memo->look_up(stack.words, 7, &path) == 0);
}

TEST_CASE_METHOD(StackMemoFixture, "stacks with the same inner frames are distinguished and all known") {
  // Sixty-four stacks: the words at 9, 13, 20, 30, 41 and 55 each have one of two values.
  const int forks[] = {9, 13, 20, 30, 41, 55};
  auto enter = [&](unsigned which) {
    for (unsigned fork = 0; fork < 6; ++fork) stack.words[forks[fork]] = 2000 + fork * 2 + (which >> fork & 1);
  };
  StackChecks checks = stack.checks({5, 9, 13, 14, 20, 28, 30, 35, 41, 47, 55, 60});
  for (unsigned which = 0; which < 64; ++which) {
    enter(which);
    REQUIRE(memo->look_up(stack.words, 7, &path) == 0);
    memo->remember(stack.words, 7, which + 1, which + 100, checks);
  }
  for (unsigned round = 0; round < 2; ++round) {
    for (unsigned which = 0; which < 64; ++which) {
      enter(which * 29 % 64);
      REQUIRE(memo->look_up(stack.words, 7, &path) == which * 29 % 64 + 1);
      CHECK(path == which * 29 % 64 + 100);
    }
  }
  stack.words[28] = 1;
  CHECK(memo->look_up(stack.words, 7, &path) == 0);
}

TEST_CASE_METHOD(StackMemoFixture, "stacks with the same inner frames that push each other out are never mixed up") {
  // 4,096 stacks, more than fit, in a changing order: the successor of a stack differs each time.
  constexpr unsigned kStacks = 4096;
  const int forks[] = {5, 9, 13, 14, 20, 28, 30, 35, 41, 47, 55, 60};
  StackChecks checks = stack.checks({5, 9, 13, 14, 20, 28, 30, 35, 41, 47, 55, 60});
  unsigned known = 0;
  for (unsigned round = 0; round < 6; ++round) {
    for (unsigned i = 0; i < kStacks; ++i) {
      // Twice forwards, twice in another order, twice as often the same ones.
      unsigned which = round < 2 ? i : round < 4 ? i * 2731 % kStacks : i * 37 % 64;
      for (unsigned fork = 0; fork < 12; ++fork) stack.words[forks[fork]] = 2000 + fork * 2 + (which >> fork & 1);
      path = 0;
      format::Ref found = memo->look_up(stack.words, 7, &path);
      REQUIRE((found == 0 || (found == which + 1 && path == which + 100)));
      known += found != 0;
      if (found == 0) memo->remember(stack.words, 7, which + 1, which + 100, checks);
    }
  }
  CHECK(known > kStacks);  // of the few in the last rounds nearly all
}

TEST_CASE_METHOD(StackMemoFixture, "a stack that takes another one's place does not inherit what followed from it") {
  StackChecks checks = stack.checks({5, 9, 20});
  memo->look_up(stack.words, 7, &path);
  memo->remember(stack.words, 7, 1, 1, checks);
  stack.words[20] = 77;
  REQUIRE(memo->look_up(stack.words, 7, &path) == 0);
  memo->remember(stack.words, 7, 2, 2, checks);
  REQUIRE(memo->look_up(stack.words, 7, &path) == 2);
  // A module was unloaded: the same frame now has its slots elsewhere, and the same word differs from it.
  stack.words[20] = 1020;
  REQUIRE(memo->look_up(stack.words, 8, &path) == 0);
  memo->remember(stack.words, 8, 3, 3, stack.checks({6, 10, 20}));
  stack.words[20] = 77;
  stack.words[9] = 5;
  CHECK(memo->look_up(stack.words, 8, &path) == 0);
}

TEST_CASE_METHOD(StackMemoFixture, "a memo that forgot all stacks has none of them in any place") {
  static std::uint64_t memory[3000];
  for (std::uint64_t i = 0; i < 3000; ++i) memory[i] = i;
  for (std::uint64_t i = 0; i + 20 < 3000; i += 2) {
    StackChecks checks = {true, 1, {}, {}};
    checks.slots[0] = reinterpret_cast<std::uint64_t>(&memory[i + 2]);
    if (memo->look_up(&memory[i], 1, &path) == 0) memo->remember(&memory[i], 1, 5, 9, checks);
  }
  auto count = [&] {
    int stacks = 0;
    memo->for_each_stack([&](format::Ref one) { stacks += one != 0 ? 1 : 0; });
    return stacks;
  };
  CHECK(count() > 1000);
  memo->forget_all();
  CHECK(count() == 0);
  CHECK(memo->used_little());
  for (std::uint64_t i = 0; i + 20 < 3000; i += 2) REQUIRE(memo->look_up(&memory[i], 1, &path) == 0);
}

TEST_CASE_METHOD(StackMemoFixture, "more stacks than there is room for push old ones out and never mix them up") {
  static std::uint64_t memory[40000];
  for (std::uint64_t i = 0; i < 40000; ++i) memory[i] = i;
  for (std::uint32_t round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i + 200 < 40000; i += 2) {
      StackChecks checks = {true, 100, {}, {}};
      for (std::uint64_t s = 0; s < 100; ++s) checks.slots[s] = reinterpret_cast<std::uint64_t>(&memory[i + 2 + s]);
      if (memo->look_up(&memory[i], 1, &path) != 0) continue;
      memo->remember(&memory[i], 1, static_cast<format::Ref>(i + 1), 9, checks);
      REQUIRE(memo->look_up(&memory[i], 1, &path) == i + 1);
    }
    int known = 0;
    for (std::uint64_t i = 0; i + 200 < 40000; i += 2) {
      format::Ref ref = memo->look_up(&memory[i], 1, &path);
      REQUIRE((ref == 0 || ref == i + 1));
      known += ref != 0;
    }
    CHECK(known > 0);
  }
}

TEST_CASE_METHOD(StackMemoFixture, "stacks that come in the same order each round are expected") {
  // All have the innermost frame in common.
  const auto enter = [&](int which) { stack.words[30] = 2000 + static_cast<std::uint64_t>(which); };
  const auto expected = [&](int which) {
    enter(which);
    return memo->look_up_expected(stack.words, 7, &path);
  };
  const auto see = [&](int which) {
    enter(which);
    const format::Ref found = memo->look_up(stack.words, 7, &path);
    if (found != 0) return found;
    const auto made = static_cast<format::Ref>(100 + which);
    memo->remember(stack.words, 7, made, static_cast<std::uint32_t>(which), stack.checks({5, 9, 20, 30, 41}));
    return made;
  };
  constexpr int kStacks = 20;
  for (int round = 0; round < 2; ++round)
    for (int which = 0; which < kStacks; ++which) REQUIRE(see(which) == static_cast<format::Ref>(100 + which));
  SECTION("by the order of the round before") {
    for (int which = 0; which < kStacks; ++which) {
      CHECK(expected(which) == static_cast<format::Ref>(100 + which));
      CHECK(path == static_cast<std::uint32_t>(which));
    }
  }
  SECTION("and any other order finds the right ones") {
    std::uint32_t state = 1;
    for (int i = 0; i < 5000; ++i) {
      state = state * 1664525 + 1013904223;
      const int which = static_cast<int>((state >> 16) % kStacks);
      REQUIRE(see(which) == static_cast<format::Ref>(100 + which));
      REQUIRE(path == static_cast<std::uint32_t>(which));
    }
  }
  SECTION("one that comes again and again is expected at once") {
    for (int i = 0; i < 3; ++i) REQUIRE(see(4) == 104);
    for (int i = 0; i < 3; ++i) CHECK(expected(4) == 104);
  }
}
