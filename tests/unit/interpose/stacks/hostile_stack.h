// A stack of a thread that never ran, with any words and registers, to be walked like the stack of a hook's caller.
// Below and above it nothing is mapped. For walk_test.cpp and tests/fuzz/walk_fuzzer.cpp.
#pragma once

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

#include "interpose/stacks/stack.h"
#include "interpose/stacks/stack_memo.h"

// A hook: its frame is found by rbp. The address that the walk begins at.
extern "C" const char culprit_test_hook_inside[];
#define CULPRIT_TEST_HOOK                    \
  asm(".text\n"                              \
      ".type culprit_test_hook, @function\n" \
      "culprit_test_hook:\n"                 \
      ".cfi_startproc\n"                     \
      "push %rbp\n"                          \
      ".cfi_def_cfa_offset 16\n"             \
      ".cfi_offset %rbp, -16\n"              \
      "mov %rsp, %rbp\n"                     \
      ".cfi_def_cfa_register %rbp\n"         \
      "nop\n"                                \
      ".globl culprit_test_hook_inside\n"    \
      "culprit_test_hook_inside:\n"          \
      "nop\n"                                \
      "pop %rbp\n"                           \
      "ret\n"                                \
      ".cfi_endproc\n"                       \
      ".size culprit_test_hook, . - culprit_test_hook\n")

namespace culprit::test {

class HostileStack {
 public:
  static constexpr std::uint64_t kPage = 4096;
  static constexpr std::uint64_t kBytes = 4 * kPage;
  static constexpr std::uint64_t kWords = kBytes / 8;
  static constexpr std::uint64_t kFrame = 480;  // in the first page: the word that the hook's frame address points to

  HostileStack() {
    // Pages that stay unmapped on both sides: as much as a guess may read.
    void* all = mmap(nullptr, kBytes + 2 * kGap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    base_ = static_cast<char*>(all);
    mprotect(base_ + kGap, kBytes, PROT_READ | PROT_WRITE);
  }
  ~HostileStack() { munmap(base_, kBytes + 2 * kGap); }
  HostileStack(const HostileStack&) = delete;
  HostileStack& operator=(const HostileStack&) = delete;

  std::uint64_t* words() { return reinterpret_cast<std::uint64_t*>(base_ + kGap); }
  std::uint64_t* frame() { return words() + kFrame; }
  std::uint64_t address(std::uint64_t word) { return reinterpret_cast<std::uint64_t>(words() + word); }

  // Walks it. frame()[0] is the caller's rbp, frame()[1] its return address; `registers` gives all others.
  void walk(const ucontext_t& registers, RawStack* stack, StackChecks* checks) {
    ucontext_t context = registers;
    context.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(culprit_test_hook_inside);
    context.uc_mcontext.gregs[REG_RBP] = reinterpret_cast<greg_t>(frame());
    context.uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(frame() - 8);
    capture_stack_of(&context, kMaxStackDepth, frame(), stack, checks);
  }

 private:
  static constexpr std::uint64_t kGap = 8 * kPage;
  char* base_;
};

inline bool same_frames(const RawStack& left, const RawStack& right) {
  return left.count == right.count && std::memcmp(left.frames, right.frames, sizeof(left.frames[0]) * left.count) == 0;
}

}  // namespace culprit::test
