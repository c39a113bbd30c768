// Progress of a long operation on a terminal: one line on stderr that is wiped when the work is done. Appears after one
// second; never appears when stderr is not a terminal, or with --quiet.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace culprit::report {

// Thread-safe.
class Progress {
 public:
  // `total`: the number of equal parts; 0: unknown.
  explicit Progress(std::size_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // The current step, in a few words.
  void doing(const std::string& what);
  // One more part is done. `about`: an interim result; empty: unchanged.
  void done(const std::string& about = "");

 private:
  void show();

  const std::size_t total_;
  const bool terminal_;  // there is one, and it may show progress
  std::chrono::steady_clock::time_point next_;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::string text_;
  bool shown_ = false;
};

// The line: "[####......] 4/10 · text", cut to `width` columns; without a total "culprit: text".
std::string progress_line(std::size_t done, std::size_t total, const std::string& text, std::size_t width);

}  // namespace culprit::report
