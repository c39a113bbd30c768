// The words that a walk of a stack read, in order (WalkReader), and what of them decided it.
#pragma once

#include <cstdint>

namespace culprit {

struct WalkedWords {
  enum class Kind : std::uint8_t {
    kWord = 1,       // the value decides
    kFramePointer,   // the value, or that it cannot be a frame pointer of a frame with this CFA
    kReturnAddress,  // the value, or that it is no address of a program
  };
  struct Word {
    std::uint64_t address;
    std::uint64_t value;  // as decisive() gives it
    std::uint64_t cfa;
    Kind kind;
    bool certain;  // it is part of the stack: all frames before it have unwind information
  };
  static constexpr int kMost = 512;
  bool complete;  // these words decide the walk
  int count;
  Word words[kMost];

  // A frame pointer lies above its frame's stack pointer, and not far: libunwind's limit.
  static bool is_frame_pointer(std::uint64_t value, std::uint64_t cfa) {
    return value >= cfa && value - cfa <= 0x4000 && value % 8 == 0;
  }
  // An address of a program: above the pages that are never mapped, below the kernel's half.
  static bool is_program_address(std::uint64_t value) { return value >= 0x10000 && value >> 56 == 0; }

  // `value`, or 0 in place of all values that mean the same.
  static std::uint64_t decisive(Kind kind, std::uint64_t value, std::uint64_t cfa) {
    const bool counts = kind == Kind::kWord || (kind == Kind::kFramePointer && is_frame_pointer(value, cfa)) ||
                        (kind == Kind::kReturnAddress && is_program_address(value));
    return counts ? value : 0;
  }
};

}  // namespace culprit
