// A thread that reads the dumps, so that keys have their effect at once while a large dump is read.
//
// The reader forks to ask NVML. The other thread, with the terminal, loads no library meanwhile, and takes no lock of
// another part (base/forked_child.h).
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "report/base/descriptor.h"
#include "report/screen/live_reader.h"

namespace culprit::report {

// All functions from one thread.
class ReadingThread {
 public:
  // Looks each `interval` seconds, and less often where a look takes long: for at most a quarter of the time.
  ReadingThread(std::vector<std::string> targets, double interval);
  ~ReadingThread();
  ReadingThread(const ReadingThread&) = delete;
  ReadingThread& operator=(const ReadingThread&) = delete;

  // Can be read when there is a new look, or the thread has failed.
  int descriptor() const { return ready_.get(); }
  // The newest look; empty: it was taken already. Throws what the thread has failed with.
  std::optional<LiveLook> take();

  // Whether it goes on reading.
  void pause(bool paused);
  // Waits until nothing is read, and keeps it so until the next call with false: for a fork.
  void hold(bool held);
  // Whether it reads now: the destructor would wait for the end of that.
  bool busy();
  // The next look comes at once.
  void look_now();

 private:
  void work();

  LiveReader reader_;
  const double interval_;
  Descriptor ready_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<LiveLook> newest_;
  std::exception_ptr failure_;
  bool ends_ = false;
  bool paused_ = false;
  bool held_ = false;
  bool busy_ = false;
  bool now_ = true;
  std::thread thread_;  // last: it uses the others
};

}  // namespace culprit::report
