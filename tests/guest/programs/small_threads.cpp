// Threads whose small stacks, given by the program, lie directly above other memory of it: small_threads KIB
#include <pthread.h>

#include "tests/guest/programs/painted.h"

namespace {

int thread_number;

struct Owner {
  CUdeviceptr memory = guest::allocate(1024);
  ~Owner() { guest::release(memory); }
};

GUEST_FUNCTION void throw_past_owner() {
  Owner owner;
  throw thread_number;
}

void* use_cuda(void*) {
  guest::use_context();
  guest::pair();
  for (int i = 0; i < 4; ++i) guest::pair_by_path(static_cast<uint64_t>(thread_number * 4 + i), 4);
  try {
    throw_past_owner();
  } catch (int) {
  }
  CHECKED(cuCtxSetCurrent(nullptr));
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  const size_t kib = static_cast<size_t>(atoi(argv[1]));
  guest::start_cuda();
  guest::StackWithNeighbour stack(kib * 1024);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  HOLDS(pthread_attr_setstack(&attributes, stack.stack(), stack.bytes()) == 0);
  for (thread_number = 0; thread_number < 64; ++thread_number) {
    pthread_t thread;
    CHECKED(pthread_create(&thread, &attributes, use_cuda, nullptr));
    CHECKED(pthread_join(thread, nullptr));
    HOLDS(stack.neighbour_is_whole());
  }
  guest::say("%d threads of %zu KiB, the neighbour's memory is whole", thread_number, kib);
  return 0;
}
