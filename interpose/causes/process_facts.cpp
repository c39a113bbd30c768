#include "interpose/causes/process_facts.h"

#include <cstdlib>
#include <cstring>

#include "interpose/base/elf_symbols.h"
#include "interpose/base/module_name.h"
#include "interpose/base/own_module.h"
#include "interpose/base/text_writer.h"
#include "interpose/causes/driver_threads.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/process/process.h"
#include "interpose/system/memory_map.h"
#include "interpose/system/os.h"
#include "interpose/system/own_files.h"
#include "interpose/system/own_folders.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"

namespace culprit {
namespace {

// The stack pointer of a thread that waits in a system call; 0: it runs, or that is not known. The file has the number
// of the call, six arguments, the stack pointer and the program counter.
std::uint64_t stack_pointer_of(const char* thread) {
  char path[64];
  TextWriter(path, sizeof(path)) << "/proc/self/task/" << thread << "/syscall";
  char text[256];
  if (read_small_file(path, text, sizeof(text)) == 0) return 0;
  constexpr int kBefore = 7;
  const char* at = text;
  for (int i = 0; i < kBefore; ++i) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return 0;
    ++at;
  }
  return std::strtoull(at, nullptr, 16);
}

constexpr int kTries = 20;
constexpr std::uint32_t kPauseMicroseconds = 1000;

OtherThreads look_at_thread(const char* thread, const MemoryMap& map, DriverThreads* drivers) {
  std::uint64_t stack = stack_pointer_of(thread);
  // A thread that has just begun, or that does something short.
  for (int tries = 0; stack == 0 && tries < kTries; ++tries) {
    sleep_microseconds(kPauseMicroseconds);
    stack = stack_pointer_of(thread);
  }
  switch (owner_of_stack(stack, map)) {
    case StackOwner::kDriver:
      drivers->add(stack, map);
      return OtherThreads::kNone;
    case StackOwner::kProgram:
      return OtherThreads::kProgram;
    case StackOwner::kUnknown:
      break;
  }
  return OtherThreads::kUnknown;
}

// Returns check(module, info) for the first module that defines the function, which calls of it reach; false: none
// does.
template <typename Check>
bool check_first_definition(const char* name, Check check) {
  bool result = false;
  any_module([&](const ElfModule& module, const struct dl_phdr_info& info) {
    if (!defines_symbol(module, name, gnu_hash_of(name))) return false;
    result = check(module, info);
    return true;
  });
  return result;
}

bool is_ours(const char* name) {
  return check_first_definition(
      name, [](const ElfModule& module, const struct dl_phdr_info&) { return in_own_module(module.begin); });
}

}  // namespace

OtherThreads other_threads(const MemoryMap& map, DriverThreads* drivers) {
  if (!is_main_thread()) return OtherThreads::kProgram;
  look_at_restrictions();
  if (threads_seen() == 1) return OtherThreads::kNone;
  OtherThreads found = OtherThreads::kNone;
  const long self = system_call(SYS_gettid);
  const bool all = for_each_entry("../../task", [&](const char* name) {
    if (std::strtol(name, nullptr, 10) != self) found = look_at_thread(name, map, drivers);
    return found == OtherThreads::kNone;
  });
  return all || found != OtherThreads::kNone ? found : OtherThreads::kUnknown;
}

bool malloc_is_glibcs() {
  return check_first_definition("malloc", [](const ElfModule& module, const struct dl_phdr_info& info) {
    return is_libc(info.dlpi_name) && find_symbol(module, "gnu_get_libc_version") != 0;
  });
}

bool has_python(Process& process) {
  const format::Header& header = *process.dump.header();
  if (!process.options.python && header.python_version == 0) PythonFrames::note_version(process.dump);
  return header.python_version != 0;
}

bool destructors_come_later() { return is_ours("__cxa_atexit") && is_ours("__cxa_thread_atexit_impl"); }

}  // namespace culprit
