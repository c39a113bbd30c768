// The preparation of the library: the work of its constructor.
//
// The constructor of another module may run before ours, and code in .preinit_array does so in most programs. Whatever
// such code calls must work. So each way into the library asks for the preparation first, and the constructor is only
// the usual one that does it. -z initfirst (CMakeLists.txt) makes our constructor run before all others in most
// processes, so that the environment of the start is copied before any code can change it; that is no guarantee: one
// module of a process has that place, and libpthread of glibc before 2.34 takes it.
#pragma once

#include <atomic>
#include <cstdint>

#include "interpose/base/placement.h"

namespace culprit {

// Work that is done once in a process. All zeros = not done. A thread that asks while another one does the work waits
// for its end. The work is repeated where a fork copied it half done, so each step of it must bear that.
class Once {
 public:
  bool is_done() const { return CULPRIT_LIKELY(state_.load(std::memory_order_acquire) == kDone); }
  // Calls work(), unless it is done, or this thread is doing it. Signals of this thread are blocked meanwhile.
  template <typename Work>
  void run(Work work) {
    if (is_done()) return;
    run([](void* pointer) { (*static_cast<Work*>(pointer))(); }, &work);
  }

 private:
  static constexpr std::uint64_t kDone = ~std::uint64_t{0};
  void run(void (*work)(void*), void* argument);
  bool begin();

  std::atomic<std::uint64_t> state_;  // 0, kDone, or the pid and number of the thread that does the work
};

extern CULPRIT_OWN Once preparation;

// Does the preparation. In a unit test there is none.
CULPRIT_COLD void prepare();

inline void ensure_prepared() {
  if (CULPRIT_UNLIKELY(!preparation.is_done())) prepare();
}

}  // namespace culprit

// The steps of the preparation, in entry/lifecycle.cpp. May be called on the tracker's own stack.
extern "C" CULPRIT_OWN __attribute__((weak)) void culprit_do_preparation();
