// Asks in the usual ways whether CUDA is in the process, where it is not: RTLD_DEFAULT must find nothing. A weak symbol
// may be answered by the preloaded library; calling it must fail, not crash.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>

extern int cuInit(unsigned flags) __attribute__((weak));
extern int cuMemAlloc_v2(unsigned long long* pointer, size_t bytes) __attribute__((weak));

int main(void) {
  unsigned long long pointer = 0;
  if (dlsym(RTLD_DEFAULT, "cuInit") != NULL) return 3;
  if (dlsym(RTLD_DEFAULT, "cuMemAlloc_v2") != NULL) return 4;
  if (dlsym(RTLD_DEFAULT, "cuGetProcAddress_v2") != NULL) return 5;
  if (dlsym(RTLD_DEFAULT, "puts") == NULL) return 6;
  if (cuInit != NULL && cuInit(0) == 0) return 7;
  if (cuMemAlloc_v2 != NULL && cuMemAlloc_v2(&pointer, 11001) == 0) return 8;
  puts("no CUDA here");
  return 0;
}
