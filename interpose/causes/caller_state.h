// The registers of a function that a search for lost memory looks at.
#pragma once

#include <cstdint>

namespace culprit {

// Where the program was when it called exit(): the registers that a function must preserve, and the stack pointer.
struct CallerState {
  static constexpr int kStackPointer = 6;
  std::uint64_t words[7];

  std::uint64_t stack_pointer() const { return words[kStackPointer]; }
};

// The state of the caller. Inline, so that it is that of the function itself.
__attribute__((always_inline)) inline CallerState caller_state() {
  CallerState state;
#if defined(__x86_64__)
  asm volatile(
      "mov %%rbx, 0(%0)\n\tmov %%rbp, 8(%0)\n\tmov %%r12, 16(%0)\n\tmov %%r13, 24(%0)\n\t"
      "mov %%r14, 32(%0)\n\tmov %%r15, 40(%0)\n\tmov %%rsp, 48(%0)"
      :
      : "r"(state.words)
      : "memory");
#else
  state = {};
#endif
  return state;
}

}  // namespace culprit
