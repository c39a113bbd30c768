// What takes so long, on a terminal: one line on stderr that is wiped when the work is done. Shows nothing in the first
// second, and nothing at all when stderr is no terminal.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace culprit {

// Thread-safe.
class Progress {
 public:
  // Of `total` equal parts; 0: of parts that nobody counted.
  explicit Progress(std::size_t total = 0);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done now, in a few words.
  void doing(const std::string& what);
  // One more part is done. `about`: what is known so far; empty: as it was.
  void done(const std::string& about = "");

 private:
  void show();

  const std::size_t total_;
  const bool terminal_;
  std::chrono::steady_clock::time_point next_;
  std::mutex mutex_;
  std::size_t done_ = 0;
  std::string text_;
  bool shown_ = false;
};

// The line: "[####......] 4/10 · text", cut to `width` columns; without a total "culprit: text".
std::string progress_line(std::size_t done, std::size_t total, const std::string& text, std::size_t width);

}  // namespace culprit
