#include "interpose/dump/young_records.h"

#include "interpose/system/os.h"

namespace culprit {

void YoungList::start() {
  started_ = can_meet_other_threads();
  resume();
}

void YoungList::enter(YoungRecords* own) {
  if (!started_) return;
  own->owner_ = &thread_locks;
  SpinGuard guard(lock_);
  all_.add(own);
  if (in_use()) own->open_.store(1, std::memory_order_release);
}

void YoungList::open(YoungRecords* own) {
  if (!in_use()) return;
  SpinGuard guard(lock_);
  // pause() takes the lock after it cleared in_use_: so it either empties these records later, or in_use() is false
  // here.
  if (own->link_.is_in_list() && in_use()) own->open_.store(1, std::memory_order_release);
}

// If membarrier(2) is forbidden, waits instead: a store is visible to all processors long before this time is over.
void YoungList::wait_for_owners() {
  if (!meet_other_threads()) sleep_microseconds(20000);
}

bool YoungList::wait_until_idle(const YoungRecords& records) {
  constexpr std::uint32_t kPollUs = 50;
  constexpr std::uint32_t kLongestWaitUs = 1000000;
  for (std::uint32_t waited = 0; records.busy_.load(std::memory_order_acquire) != 0; waited += kPollUs) {
    if (waited >= kLongestWaitUs) return false;
    if (waited != 0) sleep_microseconds(kPollUs);
  }
  return true;
}

}  // namespace culprit
