/* Takes the place of libunwind's src/mi/mempool.c: memory for the few objects that one step of an unwinding needs.
 *
 * libunwind's own pools have a mutex, which a fork child inherits locked, and grow by mmap. Here an object is one bit
 * of a bitmap, taken and given back by one atomic instruction. A thread that disappears in the middle of a step (in a
 * fork child: each thread but one) takes its two or three objects with it. When there is none left, the step fails, and
 * the stack ends there. */
#include "libunwind_i.h"

#include <stdalign.h>

#define OBJECT_BYTES 1024
#define OBJECTS 512

static alignas(64) char objects[OBJECTS][OBJECT_BYTES];
static uint64_t taken[OBJECTS / 64];

HIDDEN void mempool_init(struct mempool* pool, size_t obj_size, size_t reserve) { pool->obj_size = obj_size; }

HIDDEN void* mempool_alloc(struct mempool* pool) {
  if (pool->obj_size > OBJECT_BYTES) return NULL;
  for (int word = 0; word < OBJECTS / 64; ++word) {
    uint64_t bits = __atomic_load_n(&taken[word], __ATOMIC_RELAXED);
    while (bits != ~(uint64_t)0) {
      int bit = __builtin_ctzll(~bits);
      if (__atomic_compare_exchange_n(&taken[word], &bits, bits | (uint64_t)1 << bit, 0, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED))
        return objects[word * 64 + bit];
    }
  }
  return NULL;
}

HIDDEN void mempool_free(struct mempool* pool, void* object) {
  size_t index = (size_t)((char*)object - objects[0]) / OBJECT_BYTES;
  __atomic_fetch_and(&taken[index / 64], ~((uint64_t)1 << index % 64), __ATOMIC_RELEASE);
}
