#include "interpose/process/known_threads.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "interpose/loader/late_load.h"
#include "interpose/process/thread_end.h"
#include "interpose/process/thread_state.h"
#include "interpose/system/os.h"
#include "interpose/system/spin_lock.h"

namespace culprit {
namespace {

// In memory that the kernel wipes in a fork child: its threads are different, and the lock may be held by a thread of
// the parent.
using KnownThreads = LinkedList<KnownThread, &KnownThread::link>;
struct List {
  std::atomic<std::uint32_t> number;  // 0 = wiped, or new
  SpinLock lock;
  KnownThreads threads;
};
std::atomic<List*> the_list;
std::atomic<std::uint32_t> last_number;

// nullptr = no memory.
List* list() {
  List* present = the_list.load(std::memory_order_acquire);
  if (present == nullptr) {
    int error = 0;
    void* memory = os.map(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0, &error);
    if (memory == nullptr) return nullptr;
    os.advise(memory, sizeof(List), MADV_WIPEONFORK);
    if (the_list.compare_exchange_strong(present, static_cast<List*>(memory))) {
      present = static_cast<List*>(memory);
    } else {
      os.unmap(memory, sizeof(List));
    }
  }
  std::uint32_t none = 0;
  if (present->number.load(std::memory_order_relaxed) == 0)
    present->number.compare_exchange_strong(none, last_number.fetch_add(1) + 1);
  return present;
}

void sleep_a_millisecond() { sleep_microseconds(1000); }

bool is_outside(const ThreadState& state) {
  return __atomic_load_n(&state.outermost_hook, __ATOMIC_ACQUIRE) == nullptr &&
         !__atomic_load_n(&state.in_tracker, __ATOMIC_ACQUIRE) &&
         !__atomic_load_n(&state.known.stack->is_running_on_it, __ATOMIC_ACQUIRE);
}

}  // namespace

bool know_this_thread() {
  ThreadState& state = thread_state;
  if (state.known.past_its_end) return false;
  List* threads = list();
  if (threads == nullptr) return false;
  std::uint32_t number = threads->number.load(std::memory_order_relaxed);
  if (state.known.list == number) return true;
  watch_thread_end();
  SpinGuard guard(threads->lock);
  state.known.list = number;
  state.known.stack = &stack_of_thread;
  state.known.state = &state;
  threads->threads.add(&state.known);
  return true;
}

namespace {

bool is_this_thread_known() {
  List* threads = list();
  return threads != nullptr && thread_state.known.list == threads->number.load(std::memory_order_relaxed);
}

void take_out() {
  bool known = is_this_thread_known();
  thread_state.known.list = 0;
  if (!known) return;
  List* threads = list();
  SpinGuard guard(threads->lock);
  KnownThreads::remove(&thread_state.known);
}

}  // namespace

void forget_this_thread() {
  take_out();
  thread_state.known.past_its_end = true;
}

bool wait_for_threads(int limit_ms, bool met) {
  if (!met && !meet_other_threads()) {
    for (int i = 0; i < 20; ++i) sleep_a_millisecond();
  }
  for_each_known_thread([](ThreadState* state) { state->known.seen_outside = state == &thread_state; });
  for (int waited = 0;; ++waited) {
    bool all = true;
    for_each_known_thread([&](ThreadState* state) {
      state->known.seen_outside = state->known.seen_outside || is_outside(*state);
      all = all && state->known.seen_outside;
    });
    if (all || waited >= limit_ms) return all;
    sleep_a_millisecond();
  }
}

void for_each_known_thread(void (*visit)(ThreadState* state, void* data), void* data) {
  List* threads = list();
  if (threads == nullptr) return;
  SpinGuard guard(threads->lock);
  for (const KnownThread& known : threads->threads) visit(known.state, data);
}

VisitInTracker::VisitInTracker()
    : leaves_(!thread_state.known.past_its_end && !is_this_thread_known()), before_(thread_state.in_tracker) {
  thread_state.in_tracker = true;
  know_this_thread();
}

VisitInTracker::~VisitInTracker() {
  thread_state.in_tracker = before_;
  if (leaves_) take_out();
}

}  // namespace culprit
