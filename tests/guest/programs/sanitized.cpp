// Typical work of a program under a sanitizer: allocations, strings, threads, a library loaded by dlopen(); with an
// argument, CUDA too. The program uses only headers of the C++ library, because the memory sanitizer needs everything
// else to be built with it.
#include <dlfcn.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

bool cuda;

int compare(const void* left, const void* right) {
  return strcmp(*static_cast<char* const*>(left), *static_cast<char* const*>(right));
}

void* thread_main(void* number) {
  char* room = static_cast<char*>(malloc(1000));
  memset(room, 'x', 1000);
  if (cuda) {
    guest::use_context();
    for (uint64_t i = 0; i < 20; ++i) guest::pair_by_path(*static_cast<uint64_t*>(number) * 20 + i, 8);
  }
  try {
    throw 1;
  } catch (int) {
  }
  free(room);
  return number;
}

}  // namespace

int main(int argc, char**) {
  cuda = argc > 1;
  char* lines[100];
  for (int i = 0; i < 100; ++i) {
    char line[32];
    snprintf(line, sizeof line, "line %d", i * 7919 % 100);
    lines[i] = strdup(line);
  }
  qsort(lines, 100, sizeof lines[0], compare);
  void* library = dlopen("libresolv.so.2", RTLD_NOW);
  HOLDS(library != nullptr && dlsym(library, "res_query") != nullptr && dlsym(library, "no_such_function") == nullptr);
  if (cuda) guest::start_cuda();
  pthread_t threads[4];
  uint64_t numbers[4];
  for (int i = 0; i < 4; ++i) {
    numbers[i] = static_cast<uint64_t>(i);
    CHECKED(pthread_create(&threads[i], nullptr, thread_main, &numbers[i]));
  }
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
  if (cuda) guest::allocate(11001);
  dlclose(library);
  guest::say("%s to %s", lines[0], lines[99]);
  for (char* line : lines) free(line);
  return 7;
}
