// The names that weak_references asks for, each as a weak reference: prints which are null.
#pragma once

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// clang-format off
#define WEAK_NAMES(X)                                                                                          \
  X(cuInit) X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuGetProcAddress_v2) X(cuOfAnotherCentury)                      \
  X(cudaFree) X(cudaFreeAsync) X(cudaMalloc) X(cuptiSubscribe)                                                 \
  X(dlsym) X(dlclose) X(dladdr) X(pthread_cancel) X(_exit) X(__cxa_throw) X(_Unwind_RaiseException)
// clang-format on
// Under other names for the compiler, which knows some of the functions.
#define WEAK_DECLARE(name) extern int weak_##name(void) __asm__(#name) __attribute__((weak));
WEAK_NAMES(WEAK_DECLARE)
#undef WEAK_DECLARE

// Pointers that the loader fills in: relocations of another kind than those of the tests below.
#define WEAK_POINTER(name) {#name, (const void*)weak_##name},
static struct {
  const char* name;
  const void* address;
} weak_pointers[] = {WEAK_NAMES(WEAK_POINTER)};
#undef WEAK_POINTER

// Async-signal-safe, and before libc is ready.
static void show_names(const char* where) {
  char line[1024];
  size_t at = strlen(where);
  memcpy(line, where, at);
#define WEAK_SHOW(name)                          \
  if (weak_##name != NULL) {                     \
    line[at++] = ' ';                            \
    memcpy(line + at, #name, sizeof(#name) - 1); \
    at += sizeof(#name) - 1;                     \
  }
  WEAK_NAMES(WEAK_SHOW)
#undef WEAK_SHOW
  memcpy(line + at, " |", 2);
  at += 2;
  for (size_t i = 0; i < sizeof(weak_pointers) / sizeof(weak_pointers[0]); ++i) {
    if (weak_pointers[i].address == NULL) continue;
    line[at++] = ' ';
    memcpy(line + at, weak_pointers[i].name, strlen(weak_pointers[i].name));
    at += strlen(weak_pointers[i].name);
  }
  line[at++] = '\n';
  if (write(1, line, at) < 0) _exit(3);
}
