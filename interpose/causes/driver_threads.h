// Memory of threads that is not the program's, and that a search for lost memory leaves out: this library's data of
// each thread; and all of the threads that the driver started. These run no code of the program, and their stacks,
// their registers and libc's data about them lead to the driver's bookkeeping, which has a copy of each pointer.
//
// On the way it learns where the control blocks and the registers of the program's threads are.
//
// Not thread-safe.
#pragma once

#include <cstdint>

#include "interpose/system/written_memory.h"

namespace culprit {

class MemoryMap;
namespace format {
struct StoppedThread;
}

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

  // Those among the threads that a command has stopped, and this library's data of the others. `words`: from the number
  // of threads on (scan_state.h).
  void add_stopped(const std::uint64_t* words, std::uint64_t count, const MemoryMap& map);

  // The control block that begins at most `bytes` before an address, of a thread that is not the driver's; 0: none.
  std::uint64_t control_block_before(std::uint64_t address, std::uint64_t bytes) const;

  const MemoryRange* begin() const { return list_; }
  std::uint64_t size() const { return count_; }

  // Calls visit(begin, end) for the registers of each stopped thread that is not the driver's, until it returns false.
  template <typename Visit>
  bool for_each_register_list(Visit visit) const {
    for (std::uint64_t i = 0; i < register_list_count_; ++i) {
      if (!visit(register_lists_[i].begin, register_lists_[i].end)) return false;
    }
    return true;
  }
  bool is_register(std::uint64_t where) const;
  // Whether all of them are known.
  bool knows_registers() const { return knows_registers_; }

 private:
  // Those that are too many are searched.
  static constexpr std::uint64_t kMost = 4096;
  void add_own_data(std::uint64_t control_block);
  void add_data_of(const format::StoppedThread& thread, const std::uint64_t* registers, const MemoryMap& map);
  void add_range(std::uint64_t begin, std::uint64_t end);

  MemoryRange list_[kMost];
  std::uint64_t count_ = 0;
  MemoryRange register_lists_[kMost];
  std::uint64_t register_list_count_ = 0;
  bool knows_registers_ = true;
  std::uint64_t control_blocks_[kMost];
  std::uint64_t control_block_count_ = 0;
};

}  // namespace culprit
