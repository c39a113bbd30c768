// Asks with weak references whether CUDA is in the process: weak_references HOW PLUGIN ANOTHER USER
//   none    there is none
//   later   libcuda is opened for all (RTLD_GLOBAL); what is bound already stays null
//   local   libcuda is opened for itself: a library that is opened then does not see it
//   linked  a library that is linked to libcuda is opened, and bound at its calls
//   bound   the same, bound at once: before the loader has completed libcuda
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

#include "tests/guest/programs/weak_names.h"

void show_in_library(void);  // weak_library.c

static void before_all(int argc, char** argv, char** environment) {
  (void)argc, (void)argv, (void)environment;
  show_names("preinit:");
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char**, char**) = before_all;
__attribute__((constructor)) static void constructed(void) { show_names("constructor:"); }

static void* open_or_end(const char* path, int flags) {
  void* library = dlopen(path, flags);
  if (library != NULL) return library;
  fprintf(stderr, "%s\n", dlerror());
  exit(3);
}

static void show_in(const char* path) {
  void (*show)(void) = (void (*)(void))dlsym(open_or_end(path, RTLD_NOW), "show_in_library");
  show();
}

int main(int argc, char** argv) {
  if (argc != 5) return 3;
  const char* how = argv[1];
  show_names("main:");
  show_in_library();
  show_in(argv[2]);
  if (strcmp(how, "none") == 0) return 0;
  if (strcmp(how, "linked") == 0 || strcmp(how, "bound") == 0) {
    const int flags = strcmp(how, "linked") == 0 ? RTLD_LAZY : RTLD_NOW;
    int (*use)(void) = (int (*)(void))dlsym(open_or_end(argv[4], flags), "use_driver");
    if (use() != 0) return 3;
    show_names("main, linked:");
    return 0;
  }
  open_or_end("libcuda.so.1", strcmp(how, "later") == 0 ? RTLD_NOW | RTLD_GLOBAL : RTLD_NOW);
  show_names("main, later:");
  show_in(argv[2]);
  show_in(argv[3]);
  return 0;
}
