// A program with Python inside: embedded_python LIBPYTHON STATEMENTS [TIMES]. It starts the interpreter of that
// library, runs the statements, and ends the interpreter; TIMES times.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  void* python = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (python == NULL) return fprintf(stderr, "%s\n", dlerror()), 2;
  void (*initialize)(int) = (void (*)(int))dlsym(python, "Py_InitializeEx");
  int (*run)(const char*) = (int (*)(const char*))dlsym(python, "PyRun_SimpleString");
  int (*finalize)(void) = (int (*)(void))dlsym(python, "Py_FinalizeEx");
  for (int times = argc > 3 ? atoi(argv[3]) : 1; times > 0; --times) {
    initialize(0);
    if (run(argv[2]) != 0 || finalize() != 0) return 1;
  }
  return 0;
}
