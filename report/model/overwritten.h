// A variable that was assigned anew, without a free of what it had before.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace culprit::report {

struct ResolvedStack;

// How the place of the pointer may have changed otherwise. The end of the process tells no more.
enum class OverwrittenPlace : std::uint8_t {
  kVariable,  // a variable, or a member of one: it was assigned
  kMember,    // of an object in the heap, which may have been replaced by another object
  kValue,     // of a key, whose entry may have been erased
  kLocal,     // a variable of a function that runs, or a member of one
  kInBlock,   // likewise of a block of the function, which may have been left and entered again
};

// To `count` allocations of one line no pointer is left; the last allocation of that line is in `variable`.
struct Overwritten {
  std::uint32_t process = 0;  // index into Report::job
  OverwrittenPlace place = OverwrittenPlace::kVariable;
  std::string variable;  // "g_engine->buffer"
  std::string function;  // kLocal, kInBlock: that has the variable, "serve"
  std::string module;    // path
  std::string api;       // of the allocations
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;  // that were lost
  std::optional<unsigned> device;
  std::uint64_t first_ns = 0;            // of the first of them
  std::uint64_t last_ns = 0;             // of the allocation that the variable holds
  const ResolvedStack* stack = nullptr;  // of the allocation that the variable holds; never nullptr
};

// "variable", "member", "value", "local", "block".
const char* overwritten_place_name(OverwrittenPlace place);

}  // namespace culprit::report
