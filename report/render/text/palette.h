// Colours of the text report.
#pragma once

#include <string>

namespace culprit::report {

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
