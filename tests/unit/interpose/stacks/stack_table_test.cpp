#include "interpose/stacks/stack_table.h"

#include <set>

#include "tests/catch.h"
#include "tests/unit/interpose/fixture.h"

using namespace culprit;
using format::ModuleRecord;
using format::Ref;
using format::StackRecord;

namespace {

struct StackTableFixture {
  StackTableFixture() { REQUIRE(dump->start(folder.file("a.dump").c_str()) == 0); }
  TemporaryFolder folder;
  Zeroed<DumpWriter> dump;
  Zeroed<ModuleTable> modules;
  Zeroed<StackTable> stacks;
};

__attribute__((noinline)) int capture_at(int levels, int depth, RawStack* stack) {
  if (levels == 0) {
    capture_stack(depth, nullptr, stack, nullptr);
  } else {
    capture_at(levels - 1, depth, stack);
  }
  asm volatile("" ::: "memory");  // no tail call
  return stack->count;
}

}  // namespace

// The frames of the module that captures are left out; in a unit test that is the test program itself.
TEST_CASE("a captured stack begins outside our own module and respects the depth") {
  RawStack stack;
  capture_at(3, 64, &stack);
  REQUIRE(stack.count >= 1);
  CHECK_FALSE(stack.truncated);
  RawStack shallow;
  capture_at(3, 1, &shallow);
  CHECK(shallow.count == 1);
  CHECK(shallow.frames[0] == stack.frames[0]);
}

TEST_CASE_METHOD(StackTableFixture, "a stack is stored once, with the module of each frame") {
  RawStack stack = {
      2, false, {reinterpret_cast<std::uint64_t>(&capture_stack) + 4, reinterpret_cast<std::uint64_t>(&mkdtemp) + 4}};
  bool is_new = false;
  Ref first = stacks->intern(stack, *modules, *dump, &is_new);
  REQUIRE(first != 0);
  CHECK(is_new);
  CHECK(stacks->intern(stack, *modules, *dump, &is_new) == first);
  CHECK_FALSE(is_new);
  auto* record = dump->at<StackRecord>(first);
  REQUIRE(record->frame_count == 2);
  const auto* frames = reinterpret_cast<const std::uint64_t*>(record + 1);
  std::uint64_t own = frames[0] >> format::kFrameModuleShift & format::kFrameModuleMask;
  std::uint64_t libc = frames[1] >> format::kFrameModuleShift & format::kFrameModuleMask;
  CHECK(own != 0);
  CHECK(libc != 0);
  CHECK(own != libc);
}

TEST_CASE_METHOD(StackTableFixture, "a truncated stack is another stack") {
  RawStack stack = {1, false, {4096}};
  Ref whole = stacks->intern(stack, *modules, *dump, nullptr);
  stack.truncated = true;
  Ref cut = stacks->intern(stack, *modules, *dump, nullptr);
  CHECK(whole != cut);
  CHECK(dump->at<StackRecord>(cut)->flags == format::kStackTruncated);
}

TEST_CASE_METHOD(StackTableFixture, "forgetting addresses keeps the stacks: the same code is found again") {
  RawStack stack = {1, false, {reinterpret_cast<std::uint64_t>(&mkdtemp) + 4}};
  Ref first = stacks->intern(stack, *modules, *dump, nullptr);
  stacks->forget_addresses();
  bool is_new = false;
  CHECK(stacks->intern(stack, *modules, *dump, &is_new) == first);
  CHECK(is_new);
}

TEST_CASE_METHOD(StackTableFixture, "a distinct stack costs at most 192 bytes and 8 a frame") {
  constexpr int kStacks = 20000;
  constexpr int kFrames = 30;
  std::uint64_t before = 0;
  std::set<Ref> refs;
  for (int i = 0; i < kStacks; ++i) {
    RawStack stack = {kFrames, false, {}};
    for (int f = 0; f < kFrames; ++f)
      stack.frames[f] = 4096 + static_cast<std::uint64_t>(i) * 64 + static_cast<std::uint64_t>(f);
    Ref ref = stacks->intern(stack, *modules, *dump, nullptr);
    REQUIRE(ref != 0);
    refs.insert(ref);
    if (i == 0) before = dump->header()->file_bytes;
  }
  CHECK(refs.size() == kStacks);
  // The two private indexes: 16 bytes an entry, each at least three eighths full.
  std::uint64_t index_bytes = 2 * 43 * kStacks;
  CHECK(dump->header()->file_bytes - before + index_bytes < kStacks * (192ULL + 8 * kFrames));
}
