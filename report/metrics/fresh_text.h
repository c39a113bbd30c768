// One reading of the dumps for all requests that come at a time: thousands of requests cost what one does.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>

#include "report/metrics/exposition.h"

namespace culprit::report {

// Thread-safe.
class FreshText {
 public:
  // A text that is at most a second old, or four times as old as its making took. nullptr: there is none within
  // `longest`, because making it takes longer.
  std::shared_ptr<const Exposition> get(std::chrono::milliseconds longest);

  // Makes a text whenever one is wanted, in this thread, until stop().
  void serve(const std::function<Exposition()>& make);
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  std::mutex mutex_;
  std::condition_variable wanted_changed_;
  std::condition_variable made_;
  bool wanted_ = false;
  bool stopped_ = false;
  std::uint64_t number_ = 0;  // of the text
  std::shared_ptr<const Exposition> text_;
  Clock::time_point old_at_;
};

}  // namespace culprit::report
