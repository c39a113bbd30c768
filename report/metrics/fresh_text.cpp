#include "report/metrics/fresh_text.h"

#include <algorithm>

#include "report/base/timed_wait.h"

namespace culprit::report {

std::shared_ptr<const Exposition> FreshText::get(std::chrono::milliseconds longest) {
  const Clock::time_point end = Clock::now() + longest;
  std::unique_lock<std::mutex> lock(mutex_);
  if (text_ != nullptr && Clock::now() < old_at_) return text_;
  wanted_ = true;
  wanted_changed_.notify_one();
  const std::uint64_t before = number_;
  wait_at_most(&made_, &lock, end - Clock::now(), [&] { return stopped_ || number_ != before; });
  return !stopped_ && number_ != before ? text_ : nullptr;
}

void FreshText::serve(const std::function<Exposition()>& make) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    wanted_changed_.wait(lock, [&] { return wanted_ || stopped_; });
    if (stopped_) return;
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    auto text = std::make_shared<const Exposition>(make());
    const Clock::time_point end = Clock::now();
    lock.lock();
    text_ = std::move(text);
    old_at_ = end + std::max<Clock::duration>(std::chrono::seconds(1), (end - begin) * 4);
    ++number_;
    wanted_ = false;
    made_.notify_all();
  }
}

void FreshText::stop() {
  const std::lock_guard<std::mutex> lock(mutex_);
  stopped_ = true;
  wanted_changed_.notify_all();
  made_.notify_all();
}

}  // namespace culprit::report
