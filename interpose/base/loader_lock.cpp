#include "interpose/base/loader_lock.h"

#include <pthread.h>

#include "interpose/base/late_load.h"
#include "interpose/base/loader_count.h"
#include "interpose/base/loader_modules.h"
#include "interpose/base/os.h"

namespace culprit {
namespace {

using MutexFunction = int (*)(pthread_mutex_t*);

constexpr std::uint32_t kPollUs = 1000;

// libc's own function; not there before glibc 2.34 in a program without libpthread, which has no threads.
MutexFunction mutex_function(const char* name) { return reinterpret_cast<MutexFunction>(libc_function(name)); }

// Tries for `milliseconds`. `*taken`: the mutex; nullptr where it is not known, or the program has no threads.
bool take(std::uint32_t milliseconds, void** taken) {
  *taken = nullptr;
  find_loader_count();
  auto* mutex = static_cast<pthread_mutex_t*>(loader_mutex());
  const MutexFunction try_lock = mutex_function("pthread_mutex_trylock");
  if (mutex == nullptr || try_lock == nullptr) return true;
  for (std::uint64_t waited = 0;; waited += kPollUs) {
    const bool done = try_lock(mutex) == 0;
    if (done) *taken = mutex;
    if (done || waited >= std::uint64_t{milliseconds} * 1000) return done;
    sleep_microseconds(kPollUs);
  }
}

void release(void* taken) {
  const MutexFunction unlock = taken != nullptr ? mutex_function("pthread_mutex_unlock") : nullptr;
  if (unlock != nullptr) unlock(static_cast<pthread_mutex_t*>(taken));
}

constexpr LockOfWalks kLockOfWalks = {[](void** taken) { return take(10, taken); }, release};

}  // namespace

LoaderLock::LoaderLock(std::uint32_t milliseconds) { done_ = take(milliseconds, &taken_); }

void LoaderLock::release() {
  culprit::release(taken_);
  taken_ = nullptr;
}

void expect_unseen_unloadings() { set_lock_of_walks(&kLockOfWalks); }

}  // namespace culprit
