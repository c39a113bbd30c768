#include "report/screen/reading_thread.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "report/base/timed_wait.h"

namespace culprit::report {

using std::chrono::duration;
using std::chrono::steady_clock;

namespace {

constexpr double kShareOfTime = 4;

}  // namespace

ReadingThread::ReadingThread(std::vector<std::string> targets, double interval)
    : reader_(std::move(targets)),
      interval_(interval),
      ready_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      thread_([this] { work(); }) {}

ReadingThread::~ReadingThread() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void ReadingThread::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  double wait = 0;
  while (true) {
    wait_at_most(&changed_, &lock, std::chrono::duration_cast<steady_clock::duration>(duration<double>(wait)),
                 [this] { return ends_ || (now_ && !held_); });
    if (ends_) return;
    if (!now_ && paused_) {
      wait = interval_;
      continue;
    }
    if (held_) {
      changed_.wait(lock, [this] { return ends_ || !held_; });
      continue;
    }
    now_ = false;
    busy_ = true;
    lock.unlock();
    const steady_clock::time_point begin = steady_clock::now();
    std::optional<LiveLook> look;
    std::exception_ptr failure;
    try {
      look = reader_.look();
    } catch (...) {
      failure = std::current_exception();
    }
    wait = std::max(interval_, duration<double>(steady_clock::now() - begin).count() * (kShareOfTime - 1));
    lock.lock();
    busy_ = false;
    newest_ = std::move(look);
    failure_ = failure;
    changed_.notify_all();
    ::eventfd_write(ready_.get(), 1);
    if (failure) return;
  }
}

std::optional<LiveLook> ReadingThread::take() {
  eventfd_t count = 0;
  ::eventfd_read(ready_.get(), &count);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  return std::exchange(newest_, std::nullopt);
}

void ReadingThread::pause(bool paused) {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = paused;
}

void ReadingThread::hold(bool held) {
  std::unique_lock<std::mutex> lock(mutex_);
  held_ = held;
  changed_.notify_all();
  if (held) changed_.wait(lock, [this] { return !busy_; });
}

bool ReadingThread::busy() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return busy_;
}

void ReadingThread::look_now() {
  const std::lock_guard<std::mutex> lock(mutex_);
  now_ = true;
  changed_.notify_all();
}

}  // namespace culprit::report
