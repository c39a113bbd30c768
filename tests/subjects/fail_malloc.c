// Preloaded into `culprit`: from the FAIL_FROM-th request of the command for memory on, counted from 1, there is none.
// The libraries that it loads (libdw ends a process without memory by itself) and the programs that it starts have
// enough.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

static long fail_from = -1;  // -1: not known yet; 0: never
static long requests;
static uintptr_t begin;  // of the program's code and data
static uintptr_t end;

// The first object is the program.
static int find_program(struct dl_phdr_info* info, size_t size, void* unused) {
  (void)size;
  (void)unused;
  begin = UINTPTR_MAX;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    const uintptr_t from = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    if (from < begin) begin = from;
    if (from + info->dlpi_phdr[i].p_memsz > end) end = from + info->dlpi_phdr[i].p_memsz;
  }
  return 1;
}

static int fails(void* caller) {
  if (fail_from == -1) {
    const char* number = getenv("FAIL_FROM");
    fail_from = number != NULL && strcmp(program_invocation_short_name, "culprit") == 0 ? atol(number) : 0;
    dl_iterate_phdr(find_program, NULL);
  }
  if (fail_from == 0 || (uintptr_t)caller < begin || (uintptr_t)caller >= end) return 0;
  if (__atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED) < fail_from) return 0;
  errno = ENOMEM;
  return 1;
}

void* malloc(size_t bytes) { return fails(__builtin_return_address(0)) ? NULL : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_calloc(count, bytes);
}
void* realloc(void* old, size_t bytes) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_realloc(old, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  return fails(__builtin_return_address(0)) ? NULL : __libc_memalign(alignment, bytes);
}
