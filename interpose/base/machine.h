// The code that depends on the processor, except for assembly files (*_x86_64.S) and a few lines under __x86_64__.
#pragma once

#include <elf.h>

#include <cstdint>

#if !defined(__x86_64__)
#error "a port starts here, in raw_calls.h and with the assembly files"
#endif

namespace culprit {

// Types of relocations that hold the address of a symbol: a word of data, a pointer, a slot for calls.
constexpr std::uint32_t kAbsoluteRelocation = R_X86_64_64;
constexpr std::uint32_t kGlobalDataRelocation = R_X86_64_GLOB_DAT;
constexpr std::uint32_t kJumpSlotRelocation = R_X86_64_JUMP_SLOT;

// The vDSO's function (vdso(7)).
constexpr const char* kClockGettime = "__vdso_clock_gettime";

// For a loop that waits for another thread.
inline void pause_processor() { __builtin_ia32_pause(); }

}  // namespace culprit
