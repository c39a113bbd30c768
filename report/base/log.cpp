#include "report/base/log.h"

#include <unistd.h>

// fmt and spdlog become part of this file: the package runs where neither is installed, and libspdlog.so would need a
// libstdc++.so beside the one that the command has inside.
#define FMT_HEADER_ONLY
#define SPDLOG_HEADER_ONLY
#define SPDLOG_NO_THREAD_ID
#if !__has_include(<spdlog/fmt/bundled/core.h>)
#define SPDLOG_FMT_EXTERNAL  // Debian's spdlog has no fmt of its own
#endif
#include <spdlog/formatter.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <iostream>
#include <memory>
#include <mutex>

#include "report/base/failure.h"
#include "report/base/printable.h"
#include "report/base/terminal.h"
#include "report/base/words.h"

namespace culprit::report::log {
namespace {

constexpr char kWipe[] = "\r\x1b[K";
constexpr char kPlainColour[] = "\x1b[0m";

// The logger whose lines have no prefix; the other one has the name of the command.
constexpr char kLines[] = "";
constexpr char kCommand[] = "culprit";

struct LevelWord {
  const char* word;
  const char* colour;
};

// Lines of errors and notes have no word, because scripts read them without one.
LevelWord word_of(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::warn:
      return {"warning:", "\x1b[1;33m"};
    case spdlog::level::debug:
      return {"debug:", "\x1b[36m"};
    case spdlog::level::trace:
      return {"trace:", "\x1b[2m"};
    default:
      return {"", ""};
  }
}

class LineFormatter : public spdlog::formatter {
 public:
  explicit LineFormatter(bool colours) : colours_(colours) {}

  void format(const spdlog::details::log_msg& message, spdlog::memory_buf_t& to) override {
    if (message.logger_name != kLines) {
      append_coloured("culprit:", message.level >= spdlog::level::err ? "\x1b[1;31m" : "", &to);
      const LevelWord level = word_of(message.level);
      if (level.word[0] != '\0') append_coloured(level.word, level.colour, &to);
    }
    append(message.payload, &to);
    append("\n", &to);
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(colours_); }

 private:
  static void append(spdlog::string_view_t text, spdlog::memory_buf_t* to) {
    to->append(text.data(), text.data() + text.size());
  }

  void append_coloured(const char* word, const char* colour, spdlog::memory_buf_t* to) const {
    const bool coloured = colours_ && colour[0] != '\0';
    if (coloured) append(colour, to);
    append(word, to);
    if (coloured) append(kPlainColour, to);
    append(" ", to);
  }

  bool colours_;
};

// Standard error, and the status in its last line. std::cerr passes on printable text only (printable_stream.h).
class StandardError : public spdlog::sinks::base_sink<std::mutex> {
 public:
  StandardError()
      : spdlog::sinks::base_sink<std::mutex>(std::make_unique<LineFormatter>(wants_colours(STDERR_FILENO))) {}

  void show_status(std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::cerr << kWipe + printable(text) << std::flush;
    status_ = true;
  }

  void wipe_status() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (status_) std::cerr << kWipe << std::flush;
    status_ = false;
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t text;
    if (status_) text.append(std::begin(kWipe), std::end(kWipe) - 1);
    status_ = false;
    formatter_->format(message, text);
    std::cerr.write(text.data(), static_cast<std::streamsize>(text.size()));
    std::cerr.flush();
  }
  void flush_() override { std::cerr.flush(); }

  bool status_ = false;
};

struct Loggers {
  Loggers() {
    // A line that could not be written, for lack of memory.
    for (spdlog::logger* logger : {&command, &lines}) {
      logger->set_error_handler([](const std::string&) { write_without_memory(); });
    }
  }

  std::shared_ptr<StandardError> sink = std::make_shared<StandardError>();
  spdlog::logger command{kCommand, sink};
  spdlog::logger lines{kLines, sink};
};

Loggers& loggers() {
  static Loggers all;
  return all;
}

// The lowest level of the lines that are written.
spdlog::level::level_enum least(Level level) {
  switch (level) {
    case Level::kQuiet:
      return spdlog::level::err;
    case Level::kNormal:
      return spdlog::level::info;
    case Level::kVerbose:
      return spdlog::level::debug;
    case Level::kTrace:
      return spdlog::level::trace;
  }
  return spdlog::level::info;
}

void write(spdlog::logger* logger, spdlog::level::level_enum level, std::string_view text) {
  if (!logger->should_log(level)) return;
  const std::string payload = printable_lines(text);
  logger->log(level, spdlog::string_view_t(payload.data(), payload.size()));
}

}  // namespace

void set_level(Level level) {
  loggers().command.set_level(least(level));
  loggers().lines.set_level(least(level));
}

bool shows(Level level) { return loggers().command.should_log(least(level)); }

void error(std::string_view text) { write(&loggers().command, spdlog::level::err, text); }
void failure(const std::exception& error) noexcept {
  try {
    log::error(failure_text(error));
  } catch (const std::exception&) {
    write_without_memory();
  }
}

void warning(std::string_view text) { write(&loggers().command, spdlog::level::warn, text); }
void note(std::string_view text) { write(&loggers().command, spdlog::level::info, text); }
void line(std::string_view text) { write(&loggers().lines, spdlog::level::info, text); }
void debug(std::string_view text) { write(&loggers().command, spdlog::level::debug, text); }
void debug(std::string_view deed, const std::exception& error) noexcept {
  if (!shows(Level::kVerbose)) return;
  try {
    debug(std::string(deed) + ": " + failure_words(error));
  } catch (const std::exception&) {  // no memory
  }
}
void trace(std::string_view text) { write(&loggers().command, spdlog::level::trace, text); }

StepTime::~StepTime() {
  if (!shows(Level::kVerbose)) return;
  const auto took = std::chrono::steady_clock::now() - start_;
  debug(step_ + ": " +
        format_time(static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count())));
}

void show_status(std::string_view text) {
  if (::isatty(STDERR_FILENO) == 1 && shows(Level::kNormal)) loggers().sink->show_status(text);
}
void wipe_status() { loggers().sink->wipe_status(); }

}  // namespace culprit::report::log
