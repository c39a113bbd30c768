// Loses an allocation of 11001 bytes whose last pointer is in a chunk of malloc that ends where other memory begins:
//
//   lost_neighbours module LIBRARY       a module; ends
//   lost_neighbours pinned LIBRARY       the same with pinned memory instead of a chunk, which is lost, too
//   lost_neighbours module-kept LIBRARY  the same, and a variable has the address of the chunk's end
//   lost_neighbours stack                the stack of a thread; prints "ready", and ends at the end of stdin
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/subjects/check.h"
#include "tests/subjects/clear_stack.h"

char* g_end = nullptr;

SUBJECT_FUNCTION void* allocate_here() {
  void* pointer = nullptr;
  CHECKED(cudaMalloc(&pointer, 11001));
  return pointer;
}

// Takes chunks with mappings of their own until one ends at `place`, and puts the pointer into it.
SUBJECT_FUNCTION void put_before(std::uintptr_t place, bool keep) {
  for (int i = 0; i < 1000; ++i) {
    auto* chunk = static_cast<char*>(malloc(1 << 20));
    const std::size_t bytes = malloc_usable_size(chunk);
    if (reinterpret_cast<std::uintptr_t>(chunk) + bytes != place) continue;
    void* pointer = allocate_here();
    std::memcpy(chunk + 500, &pointer, sizeof(pointer));
    if (keep) g_end = chunk + bytes;
    return;
  }
  std::fprintf(stderr, "no chunk ends at the neighbour\n");
  exit(3);
}

// The same with pinned memory.
SUBJECT_FUNCTION void put_into_pinned_before(std::uintptr_t place) {
  const std::size_t bytes = 1 << 20;
  std::vector<void*> others;
  for (int i = 0; i < 200; ++i) {
    void* table = nullptr;
    CHECKED(cudaMallocHost(&table, bytes));
    if (reinterpret_cast<std::uintptr_t>(table) + bytes != place) {
      others.push_back(table);
      continue;
    }
    *static_cast<void**>(table) = allocate_here();
    for (void* other : others) CHECKED(cudaFreeHost(other));
    return;
  }
  std::fprintf(stderr, "no pinned memory ends at the neighbour\n");
  exit(3);
}

// Room for a neighbour and for memory before it, at the same place.
SUBJECT_FUNCTION void make_room() {
  const std::size_t bytes = 128 << 20;
  void* room = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECKED(room == MAP_FAILED ? 1 : 0);
  CHECKED(munmap(room, bytes));
}

SUBJECT_FUNCTION std::uintptr_t begin_of_module(const char* path) {
  void* module = dlopen(path, RTLD_NOW);
  CHECKED(module == nullptr ? 1 : 0);
  return static_cast<struct link_map*>(module)->l_addr;
}

SUBJECT_FUNCTION std::uintptr_t begin_of_stack() {
  pthread_t thread;
  CHECKED(pthread_create(
      &thread, nullptr,
      [](void*) -> void* {
        for (;;) pause();
      },
      nullptr));
  pthread_attr_t attributes;
  void* stack = nullptr;
  std::size_t size = 0;
  std::size_t guard = 0;
  CHECKED(pthread_getattr_np(thread, &attributes));
  CHECKED(pthread_attr_getstack(&attributes, &stack, &size));
  CHECKED(pthread_attr_getguardsize(&attributes, &guard));
  CHECKED(pthread_attr_destroy(&attributes));
  return reinterpret_cast<std::uintptr_t>(stack) - guard;
}

int main(int count, char** words) {
  const std::string how = words[1];
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // otherwise it grows when NVIDIA's driver frees a large chunk
  CHECKED(cudaFree(nullptr));
  make_room();
  if (how == "stack") {
    put_before(begin_of_stack(), false);
  } else if (how == "pinned") {
    put_into_pinned_before(begin_of_module(words[2]));
  } else if (count == 3) {
    put_before(begin_of_module(words[2]), how == "module-kept");
  }
  clear_stack();
  if (how != "stack") return 0;
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  _exit(0);
}
