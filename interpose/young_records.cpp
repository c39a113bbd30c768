#include "interpose/young_records.h"

#include "interpose/os.h"

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
  // pause() takes the lock after it said so: it either comes later, or is seen here.
  if (entered && in_use()) own->open_.store(1, std::memory_order_release);
}

void YoungList::close(Choice choice) {
  bool was_open = false;
  for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
    if (choice.covers(records)) was_open |= records->open_.exchange(0, std::memory_order_acq_rel) != 0;
  }
  if (!was_open) return;
  if (!meet_other_threads()) {
    // Forbidden since then. A store is seen by everybody long before this is over.
    for (int i = 0; i < 10; ++i) sleep_briefly();
  }
  for (YoungRecords* records = first_; records != nullptr; records = records->other_) {
    if (!choice.covers(records)) continue;
    while (records->busy_.load(std::memory_order_acquire) != 0) sleep_briefly();
  }
}

}  // namespace culprit
