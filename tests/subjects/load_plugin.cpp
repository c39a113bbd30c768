// Loads the library named by the argument, has it leak, unloads it, and loads and unloads it again; between that it
// leaks itself, so that two stacks, one through an unloaded library, must stay apart.
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "tests/subjects/check.h"

SUBJECT_FUNCTION void leak_in_program() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 20001));
}

SUBJECT_FUNCTION void use_plugin(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(3);
  }
  reinterpret_cast<void (*)()>(dlsym(plugin, "plugin_work"))();
  dlclose(plugin);
}

int main(int, char** argv) {
  leak_in_program();
  use_plugin(argv[1]);
  leak_in_program();
  use_plugin(argv[1]);
  return 0;
}
