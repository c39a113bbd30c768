#include "interpose/process/thread_end.h"

#include <pthread.h>

#include <cstdint>

#include "interpose/base/placement.h"
#include "interpose/loader/late_load.h"
#include "interpose/process/rooms_above.h"
#include "interpose/process/thread_state.h"
#include "interpose/stacks/stack.h"
#include "interpose/system/prepared.h"

namespace culprit {
namespace {

CULPRIT_AT_LOAD pthread_key_t thread_end_key;
CULPRIT_AT_LOAD bool thread_end_key_made = false;
__thread std::uint8_t rounds __attribute__((tls_model("initial-exec")));  // calls of thread_ends() so far

// Thread-specific destructors may call CUDA, and those of other keys may run after ours. So the end is handled in the
// last round that POSIX guarantees: until then this destructor stores its value again.
void thread_ends(void*) {
  constexpr int kRounds = 4;  // PTHREAD_DESTRUCTOR_ITERATIONS
  if (++rounds < kRounds) {
    watch_thread_end();
    return;
  }
  rooms_above.end_thread();
}

}  // namespace

CULPRIT_LOADING void prepare_thread_end() {
  if (thread_end_key_made) return;
  thread_end_key_made = pthread_key_create(&thread_end_key, thread_ends) == 0;
  // Other threads may make keys at the same time.
  if (loaded_late()) return;
  // Moves up to the last key whose value needs no malloc in pthread_setspecific, and frees those before it. No thread
  // has a value yet.
  constexpr pthread_key_t kLastWithoutMalloc = 31;
  pthread_key_t passed[kLastWithoutMalloc];
  int count = 0;
  pthread_key_t next = 0;
  while (thread_end_key_made && thread_end_key < kLastWithoutMalloc && pthread_key_create(&next, thread_ends) == 0) {
    if (next <= thread_end_key || next > kLastWithoutMalloc) {
      pthread_key_delete(next);
      break;
    }
    passed[count++] = thread_end_key;
    thread_end_key = next;
  }
  while (count > 0) pthread_key_delete(passed[--count]);
}

void watch_thread_end() {
  ensure_prepared();
  if (thread_end_key_made) pthread_setspecific(thread_end_key, &thread_state);
}

bool exit_runs() {
  const auto runs = [](const char* name) {
    constexpr std::uint64_t kLongest = 256;  // bytes of code; it only calls another function
    const std::uint64_t begin = libc_function(name);
    return begin != 0 && runs_code(begin, kLongest);
  };
  return runs("exit") || runs("quick_exit");
}

// Only a frame of exit() proves it: a destructor of another key in the last round, a signal handler, or a free() of the
// program's own are followed by the end of the thread, of which nothing tells us any more.
bool resume_in_exit() {
  if (!exit_runs()) return false;
  rounds = 0;
  thread_state.known.past_its_end = false;
  return true;
}

}  // namespace culprit
