#include "interpose/system/own_stack.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "interpose/base/valgrind_requests.h"
#include "interpose/system/os.h"
#include "interpose/system/own_ranges.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/restrictions.h"
#include "interpose/system/spin_lock.h"

// Calls work(argument) with the stack pointer at `top` (own_stack_*.S). An unwinder passes through it.
extern "C" CULPRIT_OWN void culprit_switch_stack(void* argument, void (*work)(void*), void* top);

namespace culprit {

__thread StackOfThread stack_of_thread __attribute__((tls_model("initial-exec"))) = {};

namespace {

// libunwind takes some 10 KiB, a walk of 256 frames with its checks 90 KiB; the driver's use for a query is not known.
// Only touched pages take memory.
constexpr std::uint64_t kStackBytes = 256 * 1024;
constexpr std::uint64_t kGuardBytes = 4096;

// A sanitizer knows only the stacks that its runtime created.
#if defined(CULPRIT_ASAN) || defined(CULPRIT_TSAN)
constexpr bool kSwitches = false;
#else
constexpr bool kSwitches = true;
#endif

// For a thread without memory for its own stack. Guarded by a lock; its holder blocks signals.
alignas(64) char spare_stack[128 * 1024];
SpinLock spare_lock;
constexpr std::uint32_t kSpareWaitMs = 100;

// Whether the path of a mapped file contains `part`, whose first character comes in it once.
bool is_mapped(const char* part) {
  const std::size_t length = std::strlen(part);
  const int fd = open_own_file("maps", O_RDONLY);
  if (fd < 0) return false;
  std::size_t matching = 0;  // characters so far
  char text[512] = {};       // the analyzer does not know what a raw system call writes
  long got = 0;
  while (matching < length && (got = system_call(SYS_read, fd, text, sizeof(text))) > 0) {
    for (long i = 0; i < got && matching < length; ++i)
      matching = text[i] == part[matching] ? matching + 1 : (text[i] == part[0] ? 1 : 0);
  }
  os.close_file(fd);
  return matching == length;
}

// By the library that it preloads: other tools warn of requests to drd. The loader's list belongs to a folder above.
bool is_on_drd() { return ask_valgrind(kRunningOnValgrind, 0, 0) != 0 && is_mapped("/vgpreload_drd-"); }

// valgrind reports a jump of the stack pointer by less than 2 MiB to an unknown stack as an overflow, so the stack is
// registered. Its tool drd takes a registered stack for the only one of the thread, and fails an assertion at the
// thread's end: there the stack is farther away than that from all other memory instead.
std::uint64_t margin() {
  static const std::uint64_t bytes = is_on_drd() ? 4 << 20 : 0;
  return bytes;
}

void register_at_valgrind(char* stack) {
  if (margin() != 0) return;
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(stack);
  stack_of_thread.valgrind =
      static_cast<unsigned>(ask_valgrind(kStackRegister, first + kGuardBytes, first + kStackBytes));
}

// Stacks of ended threads, for the next ones: a program may start a thread for each task.
constexpr int kMostKept = 16;
std::atomic<char*> kept_stacks[kMostKept];

char* take_kept_stack() {
  for (std::atomic<char*>& kept : kept_stacks) {
    if (kept.load(std::memory_order_relaxed) == nullptr) continue;
    if (char* stack = kept.exchange(nullptr, std::memory_order_acquire)) return stack;
  }
  return nullptr;
}

bool keep_stack(char* stack) {
  // valgrind's number of a registered stack is known to its thread only.
  if (ask_valgrind(kRunningOnValgrind, 0, 0) != 0) return false;
  for (std::atomic<char*>& kept : kept_stacks) {
    char* none = nullptr;
    if (kept.load(std::memory_order_relaxed) == nullptr &&
        kept.compare_exchange_strong(none, stack, std::memory_order_release))
      return true;
  }
  return false;
}

char* own_stack() {
  if (stack_of_thread.memory != nullptr) return stack_of_thread.memory;
  if (char* kept = take_kept_stack()) return stack_of_thread.memory = kept;
  // Not map_private(), which first reads files: too much for a small stack.
  int error = 0;
  auto* whole = static_cast<char*>(
      os.map(nullptr, kStackBytes + 2 * margin(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error));
  if (whole == nullptr) return nullptr;
  char* memory = whole + margin();
  note_own_range(memory, kStackBytes);
  os.protect(memory, kGuardBytes, PROT_NONE);
  register_at_valgrind(memory);
  stack_of_thread.is_locked = true;
  return stack_of_thread.memory = memory;
}

}  // namespace

bool in_own_stack(std::uint64_t address) {
  const auto in = [&](const char* memory, std::uint64_t from, std::uint64_t to) {
    const std::uint64_t offset = address - reinterpret_cast<std::uint64_t>(memory);
    return offset >= from && offset <= to - sizeof(std::uint64_t);
  };
  const char* memory = stack_of_thread.memory;
  if (memory != nullptr) return in(memory, kGuardBytes, kStackBytes);
  return stack_of_thread.is_running_on_it && kSwitches && in(spare_stack, 0, sizeof(spare_stack));
}

bool run_on_own_stack(void (*work)(void*), void* argument) {
  if (stack_of_thread.is_running_on_it) {
    work(argument);
    return true;
  }
  const std::uint64_t mask = os.block_signals();
  bool ran = true;
  stack_of_thread.is_running_on_it = true;
  restrictions_look = RestrictionsLook::kOnce;
  char* stack = kSwitches ? own_stack() : nullptr;
  if (!kSwitches) {
    work(argument);
  } else if (stack != nullptr) {
    culprit_switch_stack(argument, work, stack + kStackBytes);
    // After the first work it is known whether the process locks its memory. Our pages must not use up RLIMIT_MEMLOCK.
    if (stack_of_thread.is_locked && memory_locked()) os.unlock(stack, kStackBytes);
    stack_of_thread.is_locked = false;
  } else {
    ran = spare_lock.try_lock_for(kSpareWaitMs);
    if (ran) culprit_switch_stack(argument, work, spare_stack + sizeof(spare_stack));
    if (ran) spare_lock.unlock();
  }
  stack_of_thread.is_running_on_it = false;
  restrictions_look = RestrictionsLook::kAlways;
  os.restore_signals(mask);
  return ran;
}

void release_own_stack(bool may_keep) {
  const std::uint64_t mask = os.block_signals();
  char* stack = stack_of_thread.memory;
  stack_of_thread.memory = nullptr;
  if (stack != nullptr && (!may_keep || !keep_stack(stack))) {
    if (margin() == 0) ask_valgrind(kStackDeregister, stack_of_thread.valgrind, 0);
    forget_own_range(stack);
    os.unmap(stack - margin(), kStackBytes + 2 * margin());
  }
  os.restore_signals(mask);
}

}  // namespace culprit
