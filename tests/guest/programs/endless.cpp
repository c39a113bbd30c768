// A program that never repeats itself: endless stacks|threads|labels|contexts COUNT
// The figure "resident" is the growth of resident memory in bytes after the first twentieth of the run.
#include <culprit.h>
#include <pthread.h>

#include "tests/guest/programs/guest.h"

namespace {

long long resident_bytes() {
  FILE* file = fopen("/proc/self/statm", "r");
  HOLDS(file != nullptr);
  long long size = 0;
  long long resident = 0;
  HOLDS(fscanf(file, "%lld %lld", &size, &resident) == 2);
  fclose(file);
  return resident * sysconf(_SC_PAGESIZE);
}

void* short_thread(void* number) {
  char name[16];
  snprintf(name, sizeof name, "t%llu", static_cast<unsigned long long>(reinterpret_cast<uint64_t>(number) % 10000000));
  pthread_setname_np(pthread_self(), name);
  guest::use_context();
  guest::pair();
  return nullptr;
}

void once_more(char what, uint64_t number, uint64_t random) {
  if (what == 's') {
    guest::pair_by_path(random, 40);
  } else if (what == 't') {
    pthread_t thread;
    CHECKED(pthread_create(&thread, nullptr, short_thread, reinterpret_cast<void*>(number)));
    CHECKED(pthread_join(thread, nullptr));
  } else if (what == 'l') {
    char label[48];
    snprintf(label, sizeof label, "label %llu", static_cast<unsigned long long>(random));
    culprit_mark_push(label);
    guest::pair();
    culprit_mark_pop();
  } else {
    CUcontext context = nullptr;
    CHECKED(cuCtxCreate(&context, nullptr, 0, 0));
    guest::pair();
    CHECKED(cuCtxDestroy(context));
    guest::use_context();
  }
}

}  // namespace

int main(int, char** argv) {
  const char what = argv[1][0];
  const auto count = static_cast<uint64_t>(atoll(argv[2]));
  guest::start_cuda();
  uint64_t seed = 88172645463325252ULL;
  long long early = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i == count / 20) early = resident_bytes();
    once_more(what, i, guest::next_random(&seed));
  }
  guest::figure("resident", resident_bytes() - early);
  guest::allocate(11001);
  guest::say("%llu times", static_cast<unsigned long long>(count));
  return 0;
}
