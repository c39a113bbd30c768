#include "interpose/stacks/stack.h"
#include "interpose/stacks/unwind_rule.h"
#include "tests/catch.h"

using namespace culprit;

namespace {

const char kNoCode[64] = "not a function";

__attribute__((noinline)) int frames_here() {
  RawStack stack;
  capture_stack(kMaxStackDepth, nullptr, &stack, nullptr);
  asm volatile("" ::: "memory");
  return stack.count;
}

}  // namespace

// libunwind has memory for 512 objects of a step (scripts/libunwind/mempool.c): one that was not returned would be
// missing in every later walk.
TEST_CASE("looking functions up takes nothing away from walks") {
  forget_unwind_information();
  const int frames = frames_here();
  REQUIRE(frames > 1);  // frames of libc; those of the program itself are left out
  const auto code = reinterpret_cast<unw_word_t>(&frames_here);
  const auto data = reinterpret_cast<unw_word_t>(kNoCode);
  for (int i = 0; i < 2000; ++i) {
    culprit_function function = {};
    REQUIRE(culprit_function_at(code + 1, &function) == 0);
    REQUIRE(function.begin == code);
    REQUIRE(culprit_function_at(data, &function) != 0);
    REQUIRE(culprit_function_at(0, &function) != 0);
  }
  // Every byte in front of a function and behind it: padding between two belongs to none.
  for (unw_word_t address = code - 512; address < code + 512; ++address) {
    culprit_function function = {};
    culprit_function_at(address, &function);
  }
  for (int i = 0; i < 600; ++i) {
    forget_unwind_information();
    REQUIRE(frames_here() == frames);
  }
}
