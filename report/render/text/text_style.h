// Small pieces of the text report: sizes, times, places in code, colours.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "report/model/report_model.h"

namespace culprit::report {

// Replaces control characters by '?', because names in a dump may contain terminal escape sequences.
std::string printable(std::string_view text);

// "12.4 s", "830 ms", "0.2 ms".
std::string format_time(std::uint64_t ns);

// "solver.cu:31", "libthird.so", or "" when nothing is known.
std::string frame_place(const Frame& frame);
// "Solver::step", "third_solve+0x4c", "libthird.so+0x11f0", "0x7f12ab".
std::string frame_function(const Frame& frame);

// Place and function, "solver.cu:33  solve"; the function alone without line information.
std::string frame_text(const Frame& frame);

// Escape sequences, or empty strings when colours are off.
class Palette {
 public:
  explicit Palette(bool on) : on_(on) {}
  std::string bad(const std::string& text) const { return wrap("1;31", text); }
  std::string good(const std::string& text) const { return wrap("32", text); }
  std::string title(const std::string& text) const { return wrap("1", text); }
  std::string warn(const std::string& text) const { return wrap("33", text); }
  std::string faint(const std::string& text) const { return wrap("2", text); }

 private:
  std::string wrap(const char* code, const std::string& text) const {
    return on_ ? std::string("\x1b[") + code + "m" + text + "\x1b[0m" : text;
  }
  bool on_;
};

}  // namespace culprit::report
