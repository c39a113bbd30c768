// The lock of glibc's loader that dlopen() and dlclose() hold from beginning to end (dl_load_lock). While this library
// holds it, no other thread relocates a module, makes its pages read-only, or unmaps it.
//
// `culprit attach` and `culprit detach` may wait for it: their thread holds no lock of the program. A hook may only try
// for some milliseconds: another thread's constructor may wait for this one. A thread that is in dlopen() or dlclose()
// itself, in a constructor, holds it already and gets it again.
#pragma once

#include <cstdint>

namespace culprit {

class LoaderLock {
 public:
  // Tries for `milliseconds`, at least once.
  explicit LoaderLock(std::uint32_t milliseconds);
  ~LoaderLock() { release(); }
  LoaderLock(const LoaderLock&) = delete;
  LoaderLock& operator=(const LoaderLock&) = delete;

  // False when another thread had it all the time. True, without a lock, where the libc's lock is not known or the
  // program has no threads.
  bool done() const { return done_; }
  void release();

 private:
  bool done_ = false;
  void* taken_ = nullptr;
};

// From now on libraries may be closed by calls that do not come through our dlclose(): those that threads had begun, or
// had looked up, before `culprit attach`. Walks then also take the loader's lock, for 10 ms at most.
void expect_unseen_unloadings();

}  // namespace culprit
