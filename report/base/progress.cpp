#include "report/base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "report/base/log.h"
#include "report/base/words.h"

namespace culprit::report {
namespace {

constexpr std::chrono::seconds kSilence(1);
constexpr std::chrono::milliseconds kBetween(100);
constexpr std::size_t kBarWidth = 30;

std::size_t terminal_width() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 10 ? size.ws_col : 80;
}

}  // namespace

std::string progress_line(std::size_t done, std::size_t total, const std::string& text, std::size_t width) {
  if (total == 0) return cut_to_width("culprit: " + text, width);
  done = std::min(done, total);
  const std::size_t filled = done * kBarWidth / total;
  std::string line = "[" + std::string(filled, '#') + std::string(kBarWidth - filled, '.') + "] " +
                     std::to_string(done) + "/" + std::to_string(total);
  if (!text.empty()) line += " · " + text;
  return cut_to_width(line, width);
}

Progress::Progress(std::size_t total)
    : total_(total),
      terminal_(::isatty(STDERR_FILENO) == 1 && log::shows(log::Level::kNormal)),
      next_(std::chrono::steady_clock::now() + kSilence) {}

Progress::~Progress() {
  if (shown_) log::wipe_status();
}

void Progress::doing(const std::string& what) {
  if (!terminal_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  text_ = what;
  show();
}

void Progress::done(const std::string& about) {
  if (!terminal_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++done_;
  if (!about.empty()) text_ = about;
  show();
}

void Progress::show() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kBetween;
  shown_ = true;
  log::show_status(progress_line(done_, total_, printable(text_), terminal_width() - 1));
}

}  // namespace culprit::report
