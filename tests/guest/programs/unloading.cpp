// Threads continuously open and close a library that allocates: unloading walk|exit PLUGIN [HOW [LIBRARY]]
//   walk   until the test's time is over, while each allocation of the main thread has a new stack
//   exit   until the process ends, while its exit handlers run
// HOW: closed in a way that no preloaded library sees,
//   libc      by libc's own dlclose
//   deepbind  by LIBRARY, which is bound to libc's functions
//   failed    by dlopen itself: LIBRARY lacks a function
#include <dlfcn.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

const char* plugin;
const char* unfinished;
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
    HOLDS(unfinished == nullptr || dlopen(unfinished, RTLD_NOW) == nullptr);
  }
  return nullptr;
}

int (*close_function(void* library, const char* name))(void*) {
  HOLDS(library != nullptr);
  return reinterpret_cast<int (*)(void*)>(dlsym(library, name));
}

}  // namespace

int main(int argc, char** argv) {
  HOLDS(argc >= 3);
  plugin = argv[2];
  const char* how = argc > 3 ? argv[3] : "";
  if (strcmp(how, "libc") == 0) close_library = close_function(dlopen("libc.so.6", RTLD_NOW), "dlclose");
  if (strcmp(how, "failed") == 0 && argc > 4) unfinished = argv[4];
  guest::start_cuda();
  guest::allocate(11001);
  if (strcmp(how, "deepbind") == 0)
    close_library = close_function(dlopen(argv[4], RTLD_NOW | RTLD_DEEPBIND), "close_in_plugin");
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
