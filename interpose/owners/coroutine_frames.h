// The frame of a C++ coroutine: the object in the heap that keeps its variables between two resumptions.
//
// Both compilers let it begin with two pointers, as the common ABI of coroutines has it: the function that resumes the
// body, and the one that destroys the frame. Variables that are used after a suspension follow.
//
//     coroutine frame:  [resume] [destroy] [promise] ... [pointer to GPU memory]
//     stack:            main  run  work.resume (has the frame's address in a register, or in a slot)  cudaMalloc
#pragma once

#include <cstdint>

#include "interpose/owners/abandoned.h"

namespace culprit {

struct CoroutineFrame {
  std::uint64_t address;  // 0 = none
  std::uint64_t bytes;    // the most that may belong to it
};

// The coroutine frame that an activation of `function` works on. `registers`: those that it expects back from a callee;
// `begin` to `end`: its part of the stack. None when the function is no coroutine's body, or when several frames may be
// the one. Reads memory that may be gone; changes errno.
CoroutineFrame find_coroutine_frame(const FunctionInfo& function, const std::uint64_t* registers, int register_count,
                                    const std::uint64_t* begin, const std::uint64_t* end, FunctionAt function_at);

// Whether a handler is certainly the one that the compiler put around a coroutine's body, and none of the program's:
// the outermost handler of the call site, which catches everything, and the only one of the function. `thrown`: the
// return address in the function at the throw; `catch_call`: that of its call of __cxa_begin_catch.
bool is_handler_of_body(std::uint64_t thrown, std::uint64_t catch_call, TypeInfo type, FunctionAt function_at);

}  // namespace culprit
