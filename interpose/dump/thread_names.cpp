#include "interpose/dump/thread_names.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/utf8.h"
#include "interpose/dump/event_tables.h"

namespace culprit {
namespace {

// Untouched pages of this table take no memory.
struct Slot {
  std::uint32_t thread;  // the kernel's thread ID; 0 = free, or being written
  bool by_another;       // another thread gave the name
  char name[112];
};
constexpr std::uint32_t kSlots = 4096;
Slot slots[kSlots];

__thread bool has_name __attribute__((tls_model("initial-exec")));  // the calling thread set its name

std::uint32_t this_thread() { return static_cast<std::uint32_t>(syscall(SYS_gettid)); }

void keep(std::uint32_t thread, const char* name, bool by_another) {
  Slot& slot = slots[thread % kSlots];
  __atomic_store_n(&slot.thread, 0U, __ATOMIC_RELAXED);
  __atomic_thread_fence(__ATOMIC_RELEASE);
  slot.by_another = by_another;
  std::size_t length = length_up_to(name, sizeof(slot.name) - 1);
  std::memcpy(slot.name, name, length);
  slot.name[length] = '\0';
  __atomic_store_n(&slot.thread, thread, __ATOMIC_RELEASE);
}

}  // namespace

void keep_thread_name(const char* name) {
  has_name = true;
  keep(this_thread(), name, false);
}

void keep_name_of_thread(std::uint32_t thread, const char* name) { keep(thread, name, true); }

void apply_thread_name(ThreadTable& threads, std::uint32_t index, DumpWriter& dump) {
  std::uint32_t thread = this_thread();
  Slot& slot = slots[thread % kSlots];
  if (__atomic_load_n(&slot.thread, __ATOMIC_ACQUIRE) != thread) return;
  // Else the slot may hold the name of an earlier thread with the same number.
  if (!has_name && !slot.by_another) return;
  char name[sizeof(slot.name)];
  std::memcpy(name, slot.name, sizeof(name));
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (__atomic_load_n(&slot.thread, __ATOMIC_RELAXED) != thread) return;  // another thread took the slot meanwhile
  static_assert(sizeof(slot.name) == ThreadTable::kMostName + 1);
  threads.set_name(index, name, dump);
}

}  // namespace culprit
