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

// Libraries may be closed by calls that do not come through our dlclose(): by a dlclose() that a program asked libc's
// handle for or had looked up before `culprit attach`, in a library that is bound to libc's (RTLD_DEEPBIND), and by a
// dlopen() that fails after it has loaded some of the libraries. From now on walks also take the loader's lock, which
// they try for some milliseconds. Not done from the start: another thread's dlopen() may hold it for seconds.
// Thread-safe, async-signal-safe.
void expect_unseen_unloadings();

// Lets walks look for such unloadings in the loader's counts, and expect more of them after the first one.
void watch_for_unseen_unloadings();

}  // namespace culprit
