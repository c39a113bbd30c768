// Opens a library for a program that does not refer to dlopen() itself.
#include <dlfcn.h>
#include <stddef.h>

__attribute__((visibility("default"))) void* open_and_find(const char* path, const char* name) {
  void* library = dlopen(path, RTLD_NOW);
  return library == NULL ? NULL : dlsym(library, name);
}
