// The diagnostics of the command: lines on standard error. The library in the program has a writer of its own
// (CULPRIT_LOG); a report is output, even where `culprit run` writes it to standard error.
//
// log.cpp is the only file that includes spdlog. A text may hold foreign names: it is made printable here. A line is
// written at once and in one piece, so that it is there when the process is killed. All functions are thread-safe and
// fail in silence; none is safe in a signal handler, or in a child between fork() and exec().
#pragma once

#include <chrono>
#include <exception>
#include <string>
#include <string_view>

namespace culprit::report::log {

enum class Level {
  kQuiet,    // errors only (--quiet)
  kNormal,   // warnings, notes and progress, too
  kVerbose,  // the steps of the command, too (--verbose)
  kTrace     // and its attempts (--verbose twice)
};

// The level at the start is kNormal. To be called before there are threads.
void set_level(Level level);

// Whether lines of this level are written: for texts that are costly to make.
bool shows(Level level);

// "culprit: TEXT": why the command failed, or what it left out.
void error(std::string_view text);
// The same for an exception that ends the command (failure.h). Where there is no memory for that, the message is plain.
// Never throws.
void failure(const std::exception& error) noexcept;
// "culprit: warning: TEXT": the command goes on, and its result may not be the one that was wanted.
void warning(std::string_view text);
// "culprit: TEXT": about a command that succeeds.
void note(std::string_view text);
// "TEXT", without a prefix: a line of a table of notes.
void line(std::string_view text);
// "culprit: debug: TEXT" and "culprit: trace: TEXT".
void debug(std::string_view text);
// "culprit: debug: DEED: WORDS": an exception after which the command goes on. Where there is no memory for that, no
// line is written. Never throws.
void debug(std::string_view deed, const std::exception& error) noexcept;
void trace(std::string_view text);

// Tells by debug() how long a step took, when the object is destroyed: "resolve app.dump: 12.3 ms".
class StepTime {
 public:
  explicit StepTime(std::string step) : step_(std::move(step)), start_(std::chrono::steady_clock::now()) {}
  ~StepTime();
  StepTime(const StepTime&) = delete;
  StepTime& operator=(const StepTime&) = delete;

 private:
  std::string step_;
  std::chrono::steady_clock::time_point start_;
};

// The last line of a terminal, in place of the one shown before. Any other line wipes it first.
void show_status(std::string_view text);
void wipe_status();

}  // namespace culprit::report::log
