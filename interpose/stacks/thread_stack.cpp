#include "interpose/stacks/thread_stack.h"

#include <elf.h>

#include "interpose/base/auxiliary.h"
#include "interpose/base/memory_map.h"

namespace culprit {

ThreadStack find_thread_stack(std::uint64_t address) {
  std::uint64_t thread_block = 0;
#if defined(__x86_64__)
  asm("mov %%fs:0, %0" : "=r"(thread_block));
#endif
  MemoryMap maps;
  if (!maps.read()) return {};
  const Mapping* mapping = maps.find(address);
  if (mapping == nullptr) return {};
  const auto is_in = [mapping](std::uint64_t place) { return place >= mapping->begin && place < mapping->end; };
  // The kernel puts sixteen random bytes at the end of the main thread's stack. libc puts a thread's block at the end
  // of the stack that it, or the program, gave to the thread.
  if (is_in(auxiliary_value(AT_RANDOM))) return {mapping->begin, mapping->end};
  if (is_in(thread_block) && address < thread_block) return {mapping->begin, thread_block};
  return {};
}

}  // namespace culprit
