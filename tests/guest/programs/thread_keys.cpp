// Keys of thread-specific data: the number of a program's first key, a destructor that frees memory when it is called
// for the fourth time, and (figure "keys") how many keys there are.
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

constexpr int kRounds = 4;  // PTHREAD_DESTRUCTOR_ITERATIONS

pthread_key_t key;
CUdeviceptr memory;
int calls;

void free_in_last_round(void* value) {
  if (++calls < kRounds) {
    CHECKED(pthread_setspecific(key, value));
  } else {
    guest::release(memory);
  }
}

void* keep_memory(void*) {
  guest::use_context();
  memory = guest::allocate(1024);
  CHECKED(pthread_setspecific(key, &memory));
  return nullptr;
}

}  // namespace

int main() {
  guest::start_cuda();
  CHECKED(pthread_key_create(&key, free_in_last_round));
  pthread_t thread;
  CHECKED(pthread_create(&thread, nullptr, keep_memory, nullptr));
  CHECKED(pthread_join(thread, nullptr));
  pthread_key_t next = 0;
  bool in_order = true;
  int keys = 1;
  // The first 32 keys need no memory for their values; then comes the library's own, if it is there.
  for (; pthread_key_create(&next, nullptr) == 0; ++keys) in_order = in_order && (keys > 30 || next == key + keys);
  guest::figure("keys", keys);
  guest::allocate(11001);
  if (guestDriverLive != nullptr) guest::figure("live", static_cast<long long>(guestDriverLive()));
  guest::say("the first key is %u, the next 30 %s, the destructor was called %d times", key,
             in_order ? "follow" : "do not follow", calls);
  return 0;
}
