// Four threads walk new stacks while the main thread forks children: fork_storm cuda|plain
//   Each child loads a library, looks up symbols, throws, allocates, and (cuda) calls the driver; every second one ends
//   by exit(), the others by _exit(). A child that takes 20 s counts as hanging.
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

#include "tests/guest/programs/guest.h"

namespace {

bool stop;

void* walk(void* number) {
  uint64_t seed = 88172645463325252ULL + reinterpret_cast<uint64_t>(number);
  guest::use_context();
  while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
    guest::pair_by_path(guest::next_random(&seed), 20);
    try {
      if (seed % 8 == 0) throw 1;
    } catch (int) {
    }
  }
  return nullptr;
}

[[noreturn]] void child(bool cuda, int number) {
  alarm(20);
  void* library = dlopen("libresolv.so.2", RTLD_NOW);
  HOLDS(library != nullptr && dlsym(library, "res_query") != nullptr);
  HOLDS(dlsym(RTLD_DEFAULT, "malloc") != nullptr);
  if (cuda) guest::start_cuda();
  uint64_t seed = 1 + static_cast<uint64_t>(number);
  for (int i = 0; i < 4 && cuda; ++i) guest::pair_by_path(guest::next_random(&seed), 20);
  try {
    throw number;
  } catch (int) {
  }
  free(malloc(100000));
  dlclose(library);
  if (number % 2 == 0) exit(9);
  _exit(9);
}

}  // namespace

int main(int, char** argv) {
  const bool cuda = strcmp(argv[1], "cuda") == 0;
  guest::start_cuda();
  pthread_t threads[4];
  for (uint64_t i = 0; i < 4; ++i) CHECKED(pthread_create(&threads[i], nullptr, walk, reinterpret_cast<void*>(i)));
  int children = 0;
  for (const guest::Storm storm; storm.goes_on() || children < 50; ++children) {
    const pid_t pid = fork();
    HOLDS(pid >= 0);
    if (pid == 0) child(cuda, children);
    int status = 0;
    HOLDS(waitpid(pid, &status, 0) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 9) guest::broken(__FILE__, __LINE__, "a child's status", status);
  }
  __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  guest::figure("children", children);
  guest::say("all children ended as they should");
  return 0;
}
