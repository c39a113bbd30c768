#include "interpose/dump/young_records.h"

#include "interpose/base/os.h"

namespace culprit {

void YoungList::start() {
  started_ = meet_other_threads();
  resume();
}

void YoungList::enter(YoungRecords* own) {
  if (!started_) return;
  SpinGuard guard(lock_);
  own->other_ = first_;
  first_ = own;
  if (in_use()) own->open_.store(1, std::memory_order_release);
}

void YoungList::open(YoungRecords* own) {
  if (!in_use()) return;
  SpinGuard guard(lock_);
  bool entered = false;
  for (const YoungRecords* records = first_; records != nullptr; records = records->other_) entered |= records == own;
  // pause() takes the lock after it cleared in_use_: so it either empties these records later, or in_use() is false
  // here.
  if (entered && in_use()) own->open_.store(1, std::memory_order_release);
}

void YoungList::close(Choice choice) {
  bool was_open = false;
  for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
    if (choice.covers(records)) was_open |= records->open_.exchange(0, std::memory_order_acq_rel) != 0;
  }
  // If membarrier(2) is forbidden, wait instead: a store is visible to all processors long before this time is over.
  if (was_open && !meet_other_threads()) sleep_microseconds(20000);
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
