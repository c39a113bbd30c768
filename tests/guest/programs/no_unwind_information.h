// Calls through code that has no unwind information, as a JIT makes it: a module's assembly, and a copy of it in
// memory that belongs to no module.
#pragma once

#include <sys/mman.h>

#include "tests/guest/programs/guest.h"

// Calls function(first, second) with `rbp` in rbp and in all other registers that a function keeps.
extern "C" CUresult guest_call_with_rbp(uint64_t rbp, void* function, uint64_t first, uint64_t second);
// Calls itself `depth` times with frame pointers, and takes `room` bytes (a multiple of 16) more of the stack each
// time; then calls function(first, second).
extern "C" CUresult guest_call_at_depth(uint64_t depth, void* function, uint64_t first, uint64_t second, uint64_t room);
extern "C" const char guest_call_code[];
extern "C" const char guest_call_code_end[];

#define GUEST_CALLS_WITHOUT_UNWIND_INFORMATION                \
  asm(".text\n"                                               \
      ".globl guest_call_code, guest_call_code_end\n"         \
      ".globl guest_call_with_rbp, guest_call_at_depth\n"     \
      ".type guest_call_with_rbp, @function\n"                \
      ".type guest_call_at_depth, @function\n"                \
      "guest_call_code:\n"                                    \
      "guest_call_with_rbp:\n"                                \
      "push %rbp\n push %rbx\n push %r12\n push %r13\n"       \
      "push %r14\n push %r15\n sub $8, %rsp\n"                \
      "mov %rdi, %rbp\n mov %rdi, %rbx\n mov %rdi, %r12\n"    \
      "mov %rdi, %r13\n mov %rdi, %r14\n mov %rdi, %r15\n"    \
      "mov %rsi, %rax\n mov %rdx, %rdi\n mov %rcx, %rsi\n"    \
      "call *%rax\n"                                          \
      "add $8, %rsp\n pop %r15\n pop %r14\n pop %r13\n"       \
      "pop %r12\n pop %rbx\n pop %rbp\n ret\n"                \
      ".size guest_call_with_rbp, . - guest_call_with_rbp\n"  \
      "guest_call_at_depth:\n"                                \
      "push %rbp\n mov %rsp, %rbp\n sub %r8, %rsp\n"          \
      "test %rdi, %rdi\n jz 1f\n"                             \
      "dec %rdi\n call guest_call_at_depth\n jmp 2f\n"        \
      "1: mov %rsi, %rax\n mov %rdx, %rdi\n mov %rcx, %rsi\n" \
      "call *%rax\n"                                          \
      "2: mov %rbp, %rsp\n pop %rbp\n ret\n"                  \
      ".size guest_call_at_depth, . - guest_call_at_depth\n"  \
      "guest_call_code_end:\n")

namespace guest {

// The two functions in a module or, for `copied`, in memory of no module.
struct CallsWithoutUnwindInformation {
  decltype(&guest_call_with_rbp) with_rbp;
  decltype(&guest_call_at_depth) at_depth;
};

inline CallsWithoutUnwindInformation calls_without_unwind_information(bool copied) {
  if (!copied) return {guest_call_with_rbp, guest_call_at_depth};
  const size_t bytes = static_cast<size_t>(guest_call_code_end - guest_call_code);
  void* code = mmap(nullptr, bytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  HOLDS(code != MAP_FAILED);
  memcpy(code, guest_call_code, bytes);
  char* at_depth = static_cast<char*>(code) + (reinterpret_cast<const char*>(guest_call_at_depth) - guest_call_code);
  return {reinterpret_cast<decltype(&guest_call_with_rbp)>(code),
          reinterpret_cast<decltype(&guest_call_at_depth)>(at_depth)};
}

}  // namespace guest
