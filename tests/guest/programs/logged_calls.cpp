// Allocates and frees at random until the program is killed, and writes its own log: logged_calls FOLDER THREADS
// Each thread writes records (struct Record) to FOLDER/log.N: 'a' or 'f' before each call and 'A' or 'F' after it, with
// the size of the allocation, which is unique. The program prints "ready" when all threads run.
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

struct Record {
  char what[4];
  uint32_t size;
};

const char* folder;
uint32_t threads;
uint32_t running;

void log_call(int file, char what, uint32_t size) {
  const Record record = {{what, 0, 0, 0}, size};
  HOLDS(write(file, &record, sizeof record) == sizeof record);
}

void* run(void* argument) {
  const auto number = static_cast<uint32_t>(reinterpret_cast<uint64_t>(argument));
  char path[4096];
  snprintf(path, sizeof path, "%s/log.%u", folder, number);
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  HOLDS(file >= 0);
  guest::use_context();
  __atomic_add_fetch(&running, 1, __ATOMIC_RELEASE);
  struct {
    CUdeviceptr memory;
    uint32_t size;
  } live[256] = {};
  uint64_t seed = 88172645463325252ULL + number * 7919;
  for (uint32_t size = number + 1;; size += threads) {
    auto& slot = live[guest::next_random(&seed) % 256];
    if (slot.memory != 0) {
      log_call(file, 'f', slot.size);
      guest::release(slot.memory);
      log_call(file, 'F', slot.size);
    }
    slot.size = size;
    log_call(file, 'a', size);
    slot.memory = guest::allocate_by_path(size, seed >> 20, 6);
    log_call(file, 'A', size);
  }
  return nullptr;
}

}  // namespace

int main(int, char** argv) {
  folder = argv[1];
  threads = static_cast<uint32_t>(atoi(argv[2]));
  guest::start_cuda();
  for (uint64_t i = 0; i < threads; ++i) {
    pthread_t thread;
    CHECKED(pthread_create(&thread, nullptr, run, reinterpret_cast<void*>(i)));
  }
  while (__atomic_load_n(&running, __ATOMIC_ACQUIRE) != threads) usleep(100);
  guest::say("ready");
  for (;;) pause();
}
