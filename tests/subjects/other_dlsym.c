#define _GNU_SOURCE
// Another preloaded library with a dlsym of its own, in the manner of the GPU-sharing tools (HAMi and its kin): it
// answers some CUDA names itself, finds the real functions with dlsym(RTLD_NEXT) or through libcuda's handle, counts,
// and prints its counts at the end. It must keep working beside libculprit.so, in front of it and behind it.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*MemAlloc)(unsigned long long*, size_t);
typedef int (*GetProcAddress)(const char*, void**, int, unsigned long long, int*);

static int mem_alloc_calls;
static int dlsym_calls;
static void* libcuda;

static void* real_dlsym(void* handle, const char* name) {
  static void* (*real)(void*, const char*);
  if (real == NULL) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (real == NULL) real = (void* (*)(void*, const char*))dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
  return real(handle, name);
}

static void* real_cuda(const char* name) {
  if (libcuda == NULL) libcuda = dlopen("libcuda.so.1", RTLD_LAZY);
  return real_dlsym(libcuda, name);
}

int cuMemAlloc_v2(unsigned long long* pointer, size_t bytes) {
  __atomic_add_fetch(&mem_alloc_calls, 1, __ATOMIC_RELAXED);
  return ((MemAlloc)real_cuda("cuMemAlloc_v2"))(pointer, bytes);
}

int cuGetProcAddress_v2(const char* name, void** function, int version, unsigned long long flags, int* status) {
  const int result = ((GetProcAddress)real_cuda("cuGetProcAddress_v2"))(name, function, version, flags, status);
  if (result == 0 && strcmp(name, "cuMemAlloc") == 0) *function = (void*)cuMemAlloc_v2;
  if (result == 0 && strcmp(name, "cuGetProcAddress") == 0) *function = (void*)cuGetProcAddress_v2;
  return result;
}

void* dlsym(void* handle, const char* name) {
  __atomic_add_fetch(&dlsym_calls, 1, __ATOMIC_RELAXED);
  if (handle != RTLD_NEXT && strcmp(name, "cuGetProcAddress_v2") == 0) return (void*)cuGetProcAddress_v2;
  if (handle != RTLD_NEXT && strcmp(name, "cuMemAlloc_v2") == 0) return (void*)cuMemAlloc_v2;
  return real_dlsym(handle, name);
}

__attribute__((destructor)) static void print_counts(void) {
  if (mem_alloc_calls > 0)
    fprintf(stderr, "other: %d allocations, dlsym %s\n", mem_alloc_calls, dlsym_calls > 0 ? "used" : "unused");
}
