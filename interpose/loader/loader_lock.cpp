#include "interpose/loader/loader_lock.h"

#include <pthread.h>

#include <atomic>

#include "interpose/loader/late_load.h"
#include "interpose/loader/loader_count.h"
#include "interpose/loader/loader_modules.h"
#include "interpose/system/os.h"

namespace culprit {
namespace {

using MutexFunction = int (*)(pthread_mutex_t*);

constexpr std::uint32_t kPollUs = 100;
constexpr std::uint32_t kWaitOfWalksMs = 5;

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

bool take_for_walk(void** taken) { return take(kWaitOfWalksMs, taken); }

constexpr LockOfWalks kLockOfWalks = {take_for_walk, release};

std::atomic<bool> expected;
// At the last walk. Walks of several threads may confuse them; then walks take the lock without need.
std::atomic<std::uint64_t> last_gone;
std::atomic<std::uint32_t> last_seen;

bool watch(void** taken) {
  *taken = nullptr;
  const std::uint32_t seen = unloadings_seen();
  const std::uint64_t gone = modules_gone();
  const bool same_seen = last_seen.exchange(seen) == seen;
  if (last_gone.exchange(gone) == gone || !same_seen) return true;
  expect_unseen_unloadings();
  return take_for_walk(taken);
}

constexpr LockOfWalks kWatch = {watch, release};

}  // namespace

LoaderLock::LoaderLock(std::uint32_t milliseconds) { done_ = take(milliseconds, &taken_); }

void LoaderLock::release() {
  culprit::release(taken_);
  taken_ = nullptr;
}

void watch_for_unseen_unloadings() {
  if (expected.load()) return;
  last_seen.store(unloadings_seen());
  last_gone.store(modules_gone());
  set_lock_of_walks(&kWatch);
}

void expect_unseen_unloadings() {
  expected.store(true);
  set_lock_of_walks(&kLockOfWalks);
}

}  // namespace culprit
