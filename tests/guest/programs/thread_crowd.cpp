// Many threads at once, or many one after the other: thread_crowd HOW COUNT
//
//   together    all threads call CUDA, wait for one another, and end at the same moment, on busy processors
//   detached    the same with detached threads
//   cancelled   the same, and each thread ends by a cancellation
//   fork        the same while the first thread forks children that call CUDA
//   in-turn     a thread starts when the one before it has ended
//   storm       together, detached, cancelled and in-turn by turns
//
// Each thread keeps an allocation until a destructor of its thread-specific data frees it. The figure "live" is the
// number of allocations at the end.
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/guest/programs/guest.h"

namespace {

pthread_key_t memory_of_thread;
pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t gate = PTHREAD_COND_INITIALIZER;
pthread_cond_t arrival = PTHREAD_COND_INITIALIZER;
int arrived;
bool is_open;
int ended;
bool cancels;

void free_at_end(void* memory) {
  guest::release(reinterpret_cast<CUdeviceptr>(memory));
  __atomic_add_fetch(&ended, 1, __ATOMIC_RELAXED);
}

GUEST_FUNCTION void keep_memory() {
  guest::use_context();
  guest::pair();
  CHECKED(pthread_setspecific(memory_of_thread, reinterpret_cast<void*>(guest::allocate(1024))));
  KEEP_FRAME();
}

void let_go(void*) { pthread_mutex_unlock(&gate_lock); }

void* wait_for_all(void*) {
  keep_memory();
  pthread_mutex_lock(&gate_lock);
  pthread_cleanup_push(let_go, nullptr);
  ++arrived;
  pthread_cond_signal(&arrival);
  while (!is_open || cancels) pthread_cond_wait(&gate, &gate_lock);
  pthread_cleanup_pop(1);
  return nullptr;
}

void* end_at_once(void*) {
  keep_memory();
  return nullptr;
}

// Keeps a processor busy until the program ends.
pid_t busy_process() {
  const pid_t parent = getpid();
  const pid_t child = fork();
  HOLDS(child >= 0);
  if (child != 0) return child;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  for (volatile unsigned turns = 0;; turns = turns + 1) {
  }
}

void fork_children() {
  for (int i = 0; i < 8; ++i) {
    const pid_t child = fork();
    HOLDS(child >= 0);
    if (child == 0) {
      guest::pair();
      _exit(0);
    }
    int status = 0;
    HOLDS(waitpid(child, &status, 0) == child && status == 0);
  }
}

void together(int count, const char* how) {
  const bool detached = strcmp(how, "detached") == 0;
  cancels = strcmp(how, "cancelled") == 0;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  HOLDS(pthread_attr_setstacksize(&attributes, 64 << 10) == 0);
  if (detached) HOLDS(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
  auto* threads = static_cast<pthread_t*>(calloc(static_cast<size_t>(count), sizeof(pthread_t)));
  for (int i = 0; i < count; ++i) CHECKED(pthread_create(&threads[i], &attributes, wait_for_all, nullptr));
  pthread_mutex_lock(&gate_lock);
  while (arrived != count) pthread_cond_wait(&arrival, &gate_lock);
  is_open = true;
  pthread_cond_broadcast(&gate);
  pthread_mutex_unlock(&gate_lock);
  if (strcmp(how, "fork") == 0) fork_children();
  for (int i = 0; i < count && !detached; ++i) {
    void* result = nullptr;
    if (cancels) CHECKED(pthread_cancel(threads[i]));
    CHECKED(pthread_join(threads[i], &result));
    HOLDS(result == (cancels ? PTHREAD_CANCELED : nullptr));
  }
  while (__atomic_load_n(&ended, __ATOMIC_RELAXED) != count) usleep(1000);
  free(threads);
}

void in_turn(int count) {
  for (int i = 0; i < count; ++i) {
    pthread_t thread;
    CHECKED(pthread_create(&thread, nullptr, end_at_once, nullptr));
    CHECKED(pthread_join(thread, nullptr));
  }
  HOLDS(ended == count);
}

void one_round(const char* how, int count) {
  arrived = ended = 0;
  is_open = false;
  if (strcmp(how, "in-turn") == 0) {
    in_turn(count);
  } else {
    together(count, how);
  }
}

}  // namespace

int main(int, char** argv) {
  const int count = atoi(argv[2]);
  guest::start_cuda();
  CHECKED(pthread_key_create(&memory_of_thread, free_at_end));
  const pid_t busy[] = {busy_process(), busy_process()};
  if (strcmp(argv[1], "storm") == 0) {
    const char* const ways[] = {"together", "detached", "cancelled", "in-turn"};
    int rounds = 0;
    for (const guest::Storm storm; storm.goes_on() || rounds < 4; ++rounds) one_round(ways[rounds % 4], count);
    guest::figure("threads", static_cast<long long>(rounds) * count);
  } else {
    one_round(argv[1], count);
  }
  for (const pid_t child : busy) {
    kill(child, SIGKILL);
    HOLDS(waitpid(child, nullptr, 0) == child);
  }
  guest::allocate(11001);
  // NVIDIA's driver does not count. The threads have freed what they allocated.
  guest::figure("live", guestDriverLive != nullptr ? static_cast<long long>(guestDriverLive()) : 1);
  guest::say("%d threads ended", count);
  return 0;
}
