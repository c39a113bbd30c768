#include "interpose/system/prepared.h"

#include "interpose/base/placement.h"
#include "interpose/system/os.h"
#include "interpose/system/own_stack.h"
#include "interpose/system/raw_calls.h"
#include "interpose/system/spin_lock.h"

namespace culprit {
namespace {

constexpr std::uint32_t kLongestWaitUs = 5000000;
constexpr std::uint32_t kPollUs = 100;

}  // namespace

CULPRIT_AT_LOAD Once preparation;

// False: the work is done, or this thread is called in the middle of it, or another thread takes too long.
CULPRIT_LOADING bool Once::begin() {
  const auto process = static_cast<std::uint64_t>(system_call(SYS_getpid)) << 32;
  const std::uint64_t self = process | static_cast<std::uint32_t>(system_call(SYS_gettid));
  std::uint64_t present = 0;
  for (std::uint32_t waited = 0; waited < kLongestWaitUs; waited += kPollUs) {
    if (state_.compare_exchange_strong(present, self)) return true;
    if (present == kDone || present == self) return false;
    // A thread of a fork parent does not end its work in this process.
    if (present >> 32 != process >> 32) continue;
    sleep_microseconds(kPollUs);
    present = 0;
  }
  return false;
}

CULPRIT_LOADING void Once::run(void (*work)(void*), void* argument) {
  const std::uint64_t mask = os.block_signals();
  if (begin()) {
    work(argument);
    state_.store(kDone, std::memory_order_release);
  }
  os.restore_signals(mask);
}

void prepare() {
  if (culprit_do_preparation == nullptr) return;
  const auto work = [](void*) { preparation.run([] { culprit_do_preparation(); }); };
  if (!run_on_own_stack(work, nullptr)) work(nullptr);
}

}  // namespace culprit
