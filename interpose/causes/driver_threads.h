// Memory of threads that is not the program's, and that a search for lost memory leaves out: this library's data of
// each thread; and all of the threads that the driver started. These run no code of the program, and their stacks,
// their registers and libc's data about them lead to the driver's bookkeeping, which has a copy of each pointer.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/system/written_memory.h"

namespace culprit {

class MemoryMap;

enum class StackOwner {
  kDriver,  // code of the driver is on the stack, and none of the program
  kProgram,
  kUnknown,
};

// Whose functions have frames on a stack, as far as words look like return addresses. On the tracker's own stack only.
StackOwner owner_of_stack(std::uint64_t stack_pointer, const MemoryMap& map);

// Whether the name of a module is one of the driver (libcuda, libnvidia-...).
bool is_driver_library(const char* path);

// Memory of such threads.
class DriverThreads {
 public:
  // One that waits, with its stack and what libc keeps at the end of it. Without libc's data there nothing is added.
  void add(std::uint64_t stack_pointer, const MemoryMap& map);

  // This library's data of the calling thread.
  void add_own_data();

  // Those among the threads that a command has stopped, with their registers, and this library's data of the others.
  // `words`: from the number of threads on (scan_state.h).
  void add_stopped(const std::uint64_t* words, std::uint64_t count, const MemoryMap& map);

  const MemoryRange* begin() const { return list_; }
  std::uint64_t size() const { return count_; }

 private:
  // Those that are too many are searched.
  static constexpr std::uint64_t kMost = 4096;
  void add_own_data(std::uint64_t control_block);
  void add_range(std::uint64_t begin, std::uint64_t end);

  MemoryRange list_[kMost];
  std::uint64_t count_ = 0;
};

}  // namespace culprit
