// A program that uses most of the memory that its limits allow: address_space after|before|threads|locked|data|space N
//   after: allocates MIB after its first CUDA call; before: allocates MIB before that call, and the rest after it
//   threads: MIB threads that live at the same time; locked: locks all memory (mlockall), then allocates MIB more
//   data, space: N KiB may be added to its data, or to its address space, before the first CUDA call
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <vector>

#include "tests/guest/programs/guest.h"

namespace {

std::vector<char*> pieces;

void take(long mib) {
  for (long i = 0; i < mib; ++i) {
    char* piece = static_cast<char*>(malloc(1 << 20));
    if (piece == nullptr) guest::broken(__FILE__, __LINE__, "MiB that malloc gave", static_cast<int>(i));
    piece[0] = piece[(1 << 20) - 1] = 1;
    pieces.push_back(piece);
  }
}

void use_cuda() {
  guest::start_cuda();
  for (unsigned i = 0; i < 5000; ++i) guest::pair_by_path(i, 12);
  guest::allocate(11001);
}

pthread_barrier_t barrier;

void* thread_main(void* number) {
  guest::use_context();
  for (unsigned i = 0; i < 100; ++i) guest::pair_by_path(reinterpret_cast<uint64_t>(number) * 100 + i, 12);
  pthread_barrier_wait(&barrier);
  return nullptr;
}

void run_threads(long count) {
  std::vector<pthread_t> threads(static_cast<size_t>(count));
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(count));
  for (size_t i = 0; i < threads.size(); ++i)
    CHECKED(pthread_create(&threads[i], &attributes, thread_main, reinterpret_cast<void*>(i)));
  for (pthread_t thread : threads) CHECKED(pthread_join(thread, nullptr));
}

// Leaves `kib` KiB more than the process has.
void limit(__rlimit_resource resource, long kib) {
  FILE* file = fopen("/proc/self/statm", "r");
  unsigned long pages[6] = {};  // the sizes of all memory, resident, shared, of code, 0, and of data and stack
  HOLDS(file != nullptr);
  for (unsigned long& count : pages) HOLDS(fscanf(file, "%lu", &count) == 1);
  fclose(file);
  const rlim_t bytes = pages[resource == RLIMIT_AS ? 0 : 5] * 4096 + static_cast<rlim_t>(kib) * 1024;
  const rlimit bound = {bytes, bytes};
  HOLDS(setrlimit(resource, &bound) == 0);
}

}  // namespace

int main(int, char** argv) {
  const char* when = argv[1];
  const long mib = atol(argv[2]);
  if (strcmp(when, "before") == 0) take(mib);
  if (strcmp(when, "locked") == 0) HOLDS(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  if (strcmp(when, "data") == 0) limit(RLIMIT_DATA, mib);
  if (strcmp(when, "space") == 0) limit(RLIMIT_AS, mib);
  use_cuda();
  if (strcmp(when, "after") == 0 || strcmp(when, "locked") == 0) take(mib);
  if (strcmp(when, "threads") == 0) run_threads(mib);
  use_cuda();
  guest::say("%s: got %ld", when, mib);
  return 0;
}
