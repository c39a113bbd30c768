#include "interpose/causes/driver_threads.h"

#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/causes/stopped_threads.h"
#include "interpose/driver/loaded_drivers.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/thread_state.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"

namespace culprit {
namespace {

constexpr std::uint64_t kPage = 4096;

enum class Code { kDriver, kNeutral, kProgram };

// Whose code lies at an address. libc's, the loader's and ours is on the stack of every thread.
Code code_at(std::uint64_t address) {
  if (in_own_module(address)) return Code::kNeutral;
  struct dl_phdr_info module;
  if (!find_module(address, &module)) return Code::kNeutral;
  const char* name = file_name(module.dlpi_name);
  if (is_driver_library(name)) return Code::kDriver;
  return is_of_libc(name) || begins_with(name, "linux-vdso") ? Code::kNeutral : Code::kProgram;
}

// Calls visit(words, count, address) for the words from `begin` on, until it returns false or cannot read.
template <typename Visit>
bool read_words(std::uint64_t begin, std::uint64_t end, Visit visit) {
  std::uint64_t words[128];
  for (std::uint64_t at = begin / 8 * 8; at < end;) {
    const std::uint64_t wanted = end - at < sizeof(words) ? end - at : sizeof(words);
    const std::int64_t got = os.read_own_memory(words, at, wanted);
    if (got < 8) return false;
    if (!visit(words, static_cast<std::uint64_t>(got) / 8, at)) return true;
    at += static_cast<std::uint64_t>(got) / 8 * 8;
  }
  return true;
}

// The control block of a thread, at the end of its stack: its first and its third word are its own address (the x86-64
// ABI's TCB, glibc: tcbhead_t). 0: it is not found.
std::uint64_t control_block(std::uint64_t stack_pointer, std::uint64_t end) {
  std::uint64_t found = 0;
  std::uint64_t before[2] = {};  // the words before this one
  read_words(stack_pointer, end, [&](const std::uint64_t* words, std::uint64_t count, std::uint64_t address) {
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t begin = address + i * 8 - 16;
      if (words[i] == begin && before[0] == begin) found = begin;
      before[0] = before[1];
      before[1] = words[i];
    }
    return found == 0;
  });
  return found;
}

// Whether a word is the address of the control block of a thread.
bool is_control_block(std::uint64_t word) {
  std::uint64_t words[3] = {};
  return word != 0 && word % 8 == 0 && os.read_own_memory(words, word, sizeof(words)) == sizeof(words) &&
         words[0] == word && words[2] == word;
}

}  // namespace

bool is_driver_library(const char* path) {
  const char* name = file_name(path);
  return begins_with(name, "libcuda.so") || begins_with(name, "libnvidia-");
}

StackOwner owner_of_stack(std::uint64_t stack_pointer, const MemoryMap& map) {
  const Mapping* mapping = stack_pointer == 0 ? nullptr : map.find(stack_pointer);
  if (mapping == nullptr) return StackOwner::kUnknown;
  bool driver = false;
  bool program = false;
  const bool all = read_words(stack_pointer, mapping->end, [&](const std::uint64_t* words, std::uint64_t count, auto) {
    for (std::uint64_t i = 0; i < count && !program; ++i) {
      const Mapping* code = map.find(words[i]);
      if (code == nullptr || (code->protection & PROT_EXEC) == 0) continue;
      const Code whose = code_at(words[i]);
      program = whose == Code::kProgram;
      driver = driver || whose == Code::kDriver;
    }
    return !program;
  });
  if (program) return StackOwner::kProgram;
  if (!all) return StackOwner::kUnknown;
  return driver ? StackOwner::kDriver : StackOwner::kProgram;
}

void DriverThreads::add(std::uint64_t stack_pointer, const MemoryMap& map) {
  const Mapping* mapping = map.find(stack_pointer);
  if (mapping == nullptr) return;
  const std::uint64_t control = control_block(stack_pointer, mapping->end);
  if (control == 0) return;
  // libc puts a page without access below a stack; without one other memory may be there.
  const Mapping* guard = map.find(mapping->begin - 1);
  const bool guarded = guard != nullptr && (guard->protection & (PROT_READ | PROT_WRITE)) == 0;
  // The control block is the begin of libc's data about the thread, which ends in the same page or the next one.
  const std::uint64_t end = (control + kPage) / kPage * kPage;
  add_range(guarded ? mapping->begin : stack_pointer / 8 * 8, end < mapping->end ? end : mapping->end);
}

void DriverThreads::add_stopped(const std::uint64_t* words, std::uint64_t count, const MemoryMap& map) {
  const StoppedThreads threads(words, count);
  std::uint64_t registers = StoppedThreads::first_word(threads.size());
  for (std::uint64_t i = 0; i < threads.size(); ++i) {
    const format::StoppedThread thread = threads[i];
    if (thread.register_words > count - registers || register_list_count_ == kMost) {
      knows_registers_ = false;
      return;
    }
    if (owner_of_stack(thread.stack_pointer, map) == StackOwner::kDriver) {
      add(thread.stack_pointer, map);
    } else {
      add_data_of(thread, words + registers, map);
      register_lists_[register_list_count_++] = {
          reinterpret_cast<std::uint64_t>(words + registers),
          reinterpret_cast<std::uint64_t>(words + registers + thread.register_words)};
    }
    registers += thread.register_words;
  }
}

// The register of the control block, FS, is among those that the command saw.
void DriverThreads::add_data_of(const format::StoppedThread& thread, const std::uint64_t* registers,
                                const MemoryMap& map) {
  for (std::uint64_t i = 0; i < thread.register_words; ++i) {
    if (is_control_block(registers[i])) return add_own_data(registers[i]);
  }
  if (const Mapping* stack = map.find(thread.stack_pointer))
    add_own_data(control_block(thread.stack_pointer, stack->end));
}

void DriverThreads::add_own_data() { add_own_data(reinterpret_cast<std::uint64_t>(__builtin_thread_pointer())); }

// A thread-local variable has the same distance from the control block in each thread.
void DriverThreads::add_own_data(std::uint64_t control_block) {
  if (control_block == 0) return;
  if (control_block_count_ < kMost) control_blocks_[control_block_count_++] = control_block;
  const auto own = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  const auto add_variable = [&](const auto& variable) {
    const std::uint64_t begin = reinterpret_cast<std::uint64_t>(&variable) - own + control_block;
    add_range(begin, begin + sizeof(variable));
  };
  add_variable(thread_state);
  add_variable(stack_of_thread);
  add_variable(called_driver);
}

std::uint64_t DriverThreads::control_block_before(std::uint64_t address, std::uint64_t bytes) const {
  for (std::uint64_t i = 0; i < control_block_count_; ++i) {
    if (address - control_blocks_[i] < bytes) return control_blocks_[i];
  }
  return 0;
}

bool DriverThreads::is_register(std::uint64_t where) const {
  return !for_each_register_list([&](std::uint64_t begin, std::uint64_t end) { return where - begin >= end - begin; });
}

void DriverThreads::add_range(std::uint64_t begin, std::uint64_t end) {
  if (count_ < kMost && begin < end) list_[count_++] = {begin, end};
}

}  // namespace culprit
