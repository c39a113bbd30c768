// Requests to valgrind (valgrind.h): a sequence of instructions that does nothing on a processor.
#pragma once

#include <cstdint>

namespace culprit {

constexpr std::uint64_t kRunningOnValgrind = 0x1001;  // answer: number of nested valgrinds
constexpr std::uint64_t kStackRegister = 0x1501;      // first and last byte of a stack; answer: its number
constexpr std::uint64_t kStackDeregister = 0x1502;    // its number

// valgrind's answer, 0 without valgrind.
inline std::uint64_t ask_valgrind(std::uint64_t request, std::uint64_t first, std::uint64_t second) {
  std::uint64_t answer = 0;
#if defined(__x86_64__)
  const std::uint64_t arguments[6] = {request, first, second, 0, 0, 0};
  asm volatile("rolq $3, %%rdi; rolq $13, %%rdi; rolq $61, %%rdi; rolq $51, %%rdi; xchgq %%rbx, %%rbx"
               : "=d"(answer)
               : "a"(arguments), "0"(answer)
               : "cc", "memory");
#else
  static_cast<void>(request + first + second);
#endif
  return answer;
}

}  // namespace culprit
