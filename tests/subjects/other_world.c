/* A program for the compilers, runtimes and libcs that libculprit.so meets: built with sanitizers and with musl, run
 * under valgrind. Threads, malloc, dlopen and dlsym; with the argument "cuda", device memory, one piece of which is not
 * freed. The driver is looked up by name, so that a libc without CUDA can run it too. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "tests/subjects/check.h"

typedef int (*allocate_function)(unsigned long long*, size_t);
typedef int (*free_function)(unsigned long long);
static allocate_function allocate;
static free_function release;

SUBJECT_FUNCTION static void allocate_here(void) {
  unsigned long long pointer = 0;
  for (int i = 0; i < 200; ++i) {
    CHECKED(allocate(&pointer, 4096));
    CHECKED(release(pointer));
  }
}

SUBJECT_FUNCTION static void leak_here(void) {
  unsigned long long pointer = 0;
  CHECKED(allocate(&pointer, 11001));
}

static void* work(void* argument) {
  char* text = malloc(100);
  strcpy(text, argument);
  if (allocate != NULL) allocate_here();
  const size_t length = strlen(text);
  free(text);
  pthread_exit((void*)length);
}

static void find_driver(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) exit(4);
  int (*initialize)(unsigned) = (int (*)(unsigned))dlsym(driver, "cuInit");
  int (*retain)(void**, int) = (int (*)(void**, int))dlsym(driver, "cuDevicePrimaryCtxRetain");
  int (*make_current)(void*) = (int (*)(void*))dlsym(driver, "cuCtxSetCurrent");
  void* context = NULL;
  CHECKED(initialize(0));
  CHECKED(retain(&context, 0));
  CHECKED(make_current(context));
  allocate = (allocate_function)dlsym(driver, "cuMemAlloc_v2");
  release = (free_function)dlsym(driver, "cuMemFree_v2");
}

int main(int argc, char** argv) {
  const int with_cuda = argc > 1 && strcmp(argv[1], "cuda") == 0;
  if (with_cuda) find_driver();
  pthread_t thread;
  void* result = NULL;
  /* A thread without a context of its own calls nothing of the driver. */
  if (with_cuda) allocate_here();
  allocate_function kept = allocate;
  allocate = NULL;
  CHECKED(pthread_create(&thread, NULL, work, "hello"));
  CHECKED(pthread_join(thread, &result));
  allocate = kept;
  void* self = dlopen(NULL, RTLD_NOW);
  printf("%zu %d %d\n", (size_t)result, dlsym(RTLD_DEFAULT, "printf") != NULL, dlsym(self, "strlen") != NULL);
  if (self != NULL) dlclose(self);
  if (with_cuda) leak_here();
  return 5;
}
