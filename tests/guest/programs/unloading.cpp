// Threads continuously open and close a library that allocates: unloading walk|exit PLUGIN [libc]
//   walk   until the test's time is over, while each allocation of the main thread has a new stack
//   exit   until the process ends, while its exit handlers run
//   libc   closed by libc's own dlclose, which no preloaded library sees
#include <dlfcn.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

const char* plugin;
int (*close_library)(void*) = dlclose;
volatile int over;

void* open_and_close(void*) {
  guest::use_context();
  while (over == 0) {
    void* library = dlopen(plugin, RTLD_NOW);
    HOLDS(library != nullptr);
    const auto use = reinterpret_cast<int (*)()>(dlsym(library, "pair_in_plugin"));
    HOLDS(use != nullptr && use() == 7);
    HOLDS(close_library(library) == 0);
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  HOLDS(argc >= 3);
  plugin = argv[2];
  if (argc > 3) close_library = reinterpret_cast<int (*)(void*)>(dlsym(dlopen("libc.so.6", RTLD_NOW), "dlclose"));
  guest::start_cuda();
  guest::allocate(11001);
  pthread_t threads[4];
  for (pthread_t& thread : threads) HOLDS(pthread_create(&thread, nullptr, open_and_close, nullptr) == 0);
  const guest::Storm storm;
  for (uint64_t i = 0; storm.goes_on(); ++i) guest::pair_by_path(i, 14);
  if (strcmp(argv[1], "walk") == 0) {
    over = 1;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
  guest::say("done");
  return 0;
}
