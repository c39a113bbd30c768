#include "interpose/base/loader_lock.h"

#include <pthread.h>

#include "interpose/base/late_load.h"
#include "interpose/base/loader_count.h"
#include "interpose/base/spin_lock.h"

namespace culprit {
namespace {

using MutexFunction = int (*)(pthread_mutex_t*);

constexpr std::uint32_t kPollUs = 1000;

// libc's own function; not there before glibc 2.34 in a program without libpthread, which has no threads.
MutexFunction mutex_function(const char* name) { return reinterpret_cast<MutexFunction>(libc_function(name)); }

}  // namespace

LoaderLock::LoaderLock(std::uint32_t milliseconds, bool wanted) {
  if (!wanted) {
    done_ = true;
    return;
  }
  find_loader_count();
  auto* mutex = static_cast<pthread_mutex_t*>(loader_mutex());
  const MutexFunction try_lock = mutex_function("pthread_mutex_trylock");
  if (mutex == nullptr || try_lock == nullptr) {
    done_ = true;
    return;
  }
  for (std::uint64_t waited = 0;; waited += kPollUs) {
    done_ = try_lock(mutex) == 0;
    if (done_) taken_ = mutex;
    if (done_ || waited >= std::uint64_t{milliseconds} * 1000) return;
    sleep_microseconds(kPollUs);
  }
}

void LoaderLock::release() {
  const MutexFunction unlock = taken_ != nullptr ? mutex_function("pthread_mutex_unlock") : nullptr;
  if (unlock != nullptr) unlock(static_cast<pthread_mutex_t*>(taken_));
  taken_ = nullptr;
}

}  // namespace culprit
